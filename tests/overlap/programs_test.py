#!/usr/bin/env python3
"""Whole programs with the overlap engine in its modes; all must print what they print without shunt, without a race.

  what moves      naive_ddp's collectives really leave the compute stream, and are joined by conflict only
  machine code    kernels that run from machine code are barriers (`on`), until SHUNT_OVERLAP=assume has seen their arguments
                  agree with the PTX beside them
  traps           what programs do around collectives: groups, default streams, events, scalars, frees, flags, graphs, ends
  static NCCL     calls nobody can see are left alone
"""
import argparse
import collections
import csv
import os
import re
import subprocess
import sys
import tempfile


class Run:
    def __init__(self, build, program, mode, spec, arguments=("12",), **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_")) and k != "LD_PRELOAD"}
        env.update(LD_LIBRARY_PATH=os.path.join(build, "lib/simgpu"), SIMGPU_SPEC=spec, SIMGPU_RACES="error", **extra)
        self.reasons = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            if mode:
                env.update(LD_PRELOAD=os.path.join(build, "lib/libshunt.so"), SHUNT_OVERLAP=mode, SHUNT_TRACE=folder + "/t")
            done = subprocess.run([os.path.join(build, "tests", program), *arguments], env=env, capture_output=True, text=True)
            self.output, self.status = done.stdout, done.returncode
            if done.returncode:
                sys.exit(f"{program} with {mode}: status {done.returncode}\n{done.stdout}{done.stderr}")
            if mode:
                table = folder + "/t.csv"
                subprocess.run([os.path.join(build, "bin/shunt"), "trace", "export", "--format", "csv", folder + "/t.shunt", "-o", table],
                               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                with open(table) as f:
                    for row in csv.DictReader(f):
                        if row["name"].startswith("comm:"):
                            self.reasons[row["name"][5:], row["outcome"], row["reason"]] += 1

    def count(self, action=None, outcome=None, reason=None):
        return sum(n for (a, o, r), n in self.reasons.items()
                   if action in (None, a) and outcome in (None, o) and reason in (None, r))


def expect(condition, text, run):
    if not condition:
        sys.exit(f"{text}\n  " + "\n  ".join(f"{n:5} {' '.join(key)}" for key, n in sorted(run.reasons.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)

    plain = Run(build, "apps/overlap/naive_ddp", "", "b200:2")
    on = Run(build, "apps/overlap/naive_ddp", "on", "b200:2")
    calls = 2 * 12 * 6  # ranks, iterations, layers
    moved = on.count("comm-move", "applied")
    print(f"naive_ddp: {moved} of {calls} collectives moved, {on.count('comm-join')} joins, {on.count('comm-join', reason='join-conflict')} by conflict")
    expect(on.output == plain.output, "naive_ddp prints something else", on)
    expect(moved >= calls // 2, "too few collectives moved", on)
    expect(moved + on.count("pass-through") == calls, "a collective without a decision", on)
    expect(on.count("comm-join", reason="join-unknown-kernel") == 0, "its kernels are proven", on)

    shadow = Run(build, "apps/overlap/naive_ddp", "shadow", "b200:2")
    expect(shadow.output == plain.output, "naive_ddp prints something else", shadow)
    expect(shadow.count(outcome="applied") == 0 and shadow.count("comm-move", "shadow") > 0, "shadow decides and changes nothing", shadow)

    machine = "overlap/ddp_machine_code"
    plain = Run(build, machine, "", "b200:2")
    proven = Run(build, machine, "on", "b200:2")
    assumed = Run(build, machine, "assume", "b200:2")
    barriers, left = (r.count("comm-join", reason="join-unknown-kernel") for r in (proven, assumed))
    print(f"machine code: {barriers} joins at unknown kernels with `on`, {left} with `assume`")
    for run in (proven, assumed):
        expect(run.output == plain.output, "machine code prints something else", run)
    expect(barriers > 0, "machine code is not proven by the PTX beside it", proven)
    expect(left < barriers and assumed.count("comm-join", reason="join-conflict") > 0, "arguments that agree are believed", assumed)

    traps = "overlap/traps"
    for mode in ("on", "assume", "shadow"):
        for repetitions in ("6", "24") if mode == "on" else ("6",):
            plain = Run(build, traps, "", "b200:2", (repetitions,))
            run = Run(build, traps, mode, "b200:2", (repetitions,))
            if run.output != plain.output:
                for want, got in zip(plain.output.splitlines(), run.output.splitlines()):
                    if want != got:
                        print(f"without: {want}\n  {mode}: {got}")
            expect(run.output == plain.output, f"traps with {mode}, {repetitions} repetitions, print something else", run)
            if mode == "on":
                share = run.count("comm-move", "applied") / (run.count("comm-move") + run.count("pass-through"))
                print(f"traps: {share:.0%} of the collectives moved ({repetitions} repetitions)")
                expect(share > (0.3 if repetitions == "6" else 0.6), "too few collectives moved", run)

    static = "overlap/ddp_static_nccl"
    plain = Run(build, static, "", "b200:1")
    seen = Run(build, static, "on", "b200:1")
    expect(seen.output == plain.output and re.search("digest", plain.output), "static NCCL prints something else", seen)
    expect(seen.count() == 0, "calls nobody can see are left alone", seen)
    print("static NCCL: left alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
