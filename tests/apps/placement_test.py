#!/usr/bin/env python3
"""Where a program lands on a mixed box, end to end: the documented default without a hint, the larger device with
`--hint mem=200GiB`; the start line says which and the program's output is the same."""
import argparse
import os
import sys

from run_apps import base_env, run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    shunt = os.path.join(build, "bin/shunt")
    vecadd = os.path.join(build, "tests/apps/vecadd")
    failed = 0

    def case(name, arguments, want, unwanted):
        nonlocal failed
        got = run([shunt, "run", "--sim", "b200:2,rubin:2"] + arguments + ["--", vecadd], base_env(), 60)
        start = next((line for line in got.err.splitlines() if line.startswith("[shunt]") and want in line), "")
        ok = got.status == 0 and "PASSED" in got.out and start and unwanted not in start
        print(f"{name:16} {'ok' if ok else 'FAILED'}  {start}")
        if not ok:
            failed += 1
            print(f"    status {got.status}\n    {got.out}\n    {got.err}")
        return got.out

    # The default: the device the program would have used itself (ordinal 0, a B200). With a hint that no B200 can hold
    # (192 GB of HBM is 178 GiB), the Rubin.
    default = case("default", [], "B200", "Rubin")
    hinted = case("--hint mem=200GiB", ["--hint", "mem=200GiB"], "Rubin", "B200")
    if default != hinted:
        failed += 1
        print("output differs between the devices")
    print(f"{2 - min(failed, 2)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
