#!/usr/bin/env python3
"""What `shunt run` says when it cannot do what was asked: one clear error naming the thing, the value and the fix; 125 when
shunt itself fails, 126 when the program cannot be executed, 127 when it is not found; the program's own status otherwise."""
import argparse
import os
import stat
import sys
import tempfile

from run_apps import base_env, run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    shunt = os.path.join(build, "bin/shunt")
    apps = os.path.join(build, "tests/apps")
    folder = tempfile.TemporaryDirectory()
    plain_file = os.path.join(folder.name, "not_executable")
    with open(plain_file, "w") as f:
        f.write("#!/bin/sh\n")
    # A 32-bit ELF header: enough for the launcher to see what it is; it must refuse before starting it.
    elf32 = os.path.join(folder.name, "elf32")
    with open(elf32, "wb") as f:
        f.write(b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\x03\x00\x01\x00\x00\x00" + bytes(28))
    os.chmod(elf32, 0o755)
    setuid = os.path.join(folder.name, "setuid")
    with open("/bin/true", "rb") as src, open(setuid, "wb") as dst:
        dst.write(src.read())
    os.chown(setuid, 12345, 12345)
    os.chmod(setuid, stat.S_ISUID | 0o755)

    # name: (arguments, status or None for "not 0", words that must stand in the message)
    cases = {
        "unknown option": (["run", "--no-such-option", "--", "true"], 125, ["--no-such-option"]),
        "unknown command": (["runn", "true"], 125, ["runn", "run"]),
        "unknown model": (["run", "--sim", "b2000:1", "--", "true"], 125, ["b2000", "b200"]),
        "zero devices": (["run", "--sim", "b200:0", "--", "true"], 125, ["b200:0"]),
        "bad memory": (["run", "--sim", "b200:1@mem=lots", "--", "true"], 125, ["lots"]),
        "bad hint": (["run", "--sim", "b200:1", "--hint", "mem=huge", "--", "true"], 125, ["huge"]),
        "no program": (["run", "--sim", "b200:1"], 125, ["program"]),
        "missing program": (["run", "--sim", "b200:1", "--", "/no/such/program"], 127, ["/no/such/program"]),
        "missing in PATH": (["run", "--", "surely-not-installed"], 127, ["surely-not-installed"]),
        "not executable": (["run", "--sim", "b200:1", "--", plain_file], 126, [plain_file]),
        "32-bit program": (["run", "--sim", "b200:1", "--", elf32], 126, ["32-bit"]),
        "setuid program": (["run", "--sim", "b200:1", "--", setuid], 126, ["setuid"]),
        "machine code only": (["run", "--sim", "b200:1", "--", f"{apps}/bad/sass_only"], None, ["PTX"]),
        "static runtime": (["run", "--sim", "b200:1", "--", f"{apps}/static/vecadd"], 125, ["static", "-cudart shared"]),
        "program's status": (["run", "--sim", "b200:1", "--", "sh", "-c", "exit 41"], 41, []),
        "program's signal": (["run", "--sim", "b200:1", "--", "sh", "-c", "kill -KILL $$"], -9, []),
    }
    failed = 0
    for name, (arguments, status, words) in cases.items():
        got = run([shunt] + arguments, base_env(), 60)
        problems = []
        if (got.status == 0 if status is None else got.status != status):
            problems.append(f"status {got.status}, expected {status if status is not None else 'a failure'}")
        problems += [f"the message does not name {w!r}" for w in words if w not in got.err + (got.out if status is None else "")]
        errors = [line for line in got.err.splitlines() if line.startswith("[shunt] ")]
        if words and status is not None and len(errors) > 3:
            problems.append(f"{len(errors)} lines instead of one clear error")
        print(f"{name:20} {'FAILED' if problems else 'ok'}")
        if problems:
            failed += 1
            print("    " + "\n    ".join(problems) + f"\n    stderr: {got.err}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
