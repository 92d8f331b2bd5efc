#!/usr/bin/env python3
"""Runs the programs of tests/apps in one way and compares each with a run without shunt on the same devices.

Modes: plain    on simgpu, no shunt: every program must pass by its own check
       preload  LD_PRELOAD=libshunt.so on simgpu: stdout, stderr and exit status as without
       b200, rubin, mixed   `shunt run --sim b200:1 | rubin:1 | b200:2,rubin:2 -- program`
       gpu      the real driver: bare preload against no preload (scripts/gpu-check uses it)

Prints one line a program and ends with `N passed, N failed`; the exit status is 1 if any differs.
"""
import argparse
import difflib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

SPECS = {"plain": "b200:1", "preload": "b200:1", "b200": "b200:1", "rubin": "rubin:1", "mixed": "b200:2,rubin:2"}
# Programs whose output states how many devices there are; all others must print the same on every box.
BOX_DEPENDENT = {"multi_device_peer"}
# A program with this ending computes what the one without it does, in another way.
TWINS = ("_hand", "_two")


class Outcome:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds


def run(command, env, timeout):
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
        status, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
        status, out, err = "timeout", e.stdout or b"", e.stderr or b""
    return Outcome(status, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - start)


def base_env():
    """The caller's environment without anything that would steer shunt or simgpu."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("SHUNT_", "SIMGPU_")) and k not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES")}


def sim_env(build, spec):
    env = base_env()
    env["LD_LIBRARY_PATH"] = os.path.join(build, "lib/simgpu")
    env["SIMGPU_SPEC"] = spec
    return env


class Runner:
    def __init__(self, args):
        self.build = os.path.abspath(args.build)
        self.mode, self.timeout = args.mode, args.timeout
        # The NCCL programs have a rank a device: one box with two of them instead of one.
        self.specs = SPECS if args.set != "overlap" else dict(SPECS, plain="b200:2", preload="b200:2")
        self.folder = os.path.join(self.build, "tests/apps", "static" if args.static else "")
        self.extra = dict(pair.split("=", 1) for pair in args.env)
        self.shim = os.path.join(self.build, "lib/libshunt.so")
        self.shunt = os.path.join(self.build, "bin/shunt")

    def without(self, program, spec):
        env = base_env() if self.mode == "gpu" else sim_env(self.build, spec)
        return run([program], env, self.timeout)

    def with_shunt(self, program):
        if self.mode == "preload":
            env = dict(sim_env(self.build, self.specs["preload"]), LD_PRELOAD=self.shim, **self.extra)
            return run([program], env, self.timeout)
        if self.mode == "gpu":
            return run([program], dict(base_env(), LD_PRELOAD=self.shim, **self.extra), self.timeout)
        command = [self.shunt, "run", "--sim", self.specs[self.mode], "--", program]
        return run(command, dict(base_env(), **self.extra), self.timeout)

    def check(self, name):
        """(problems, seconds without shunt, seconds with)."""
        program = os.path.join(self.folder, name)
        if not os.access(program, os.X_OK):
            return ["not built: " + program], 0, 0
        spec = self.specs.get(self.mode)
        reference = self.without(program, spec)
        problems = []
        if reference.status != 0:
            problems.append(f"without shunt: status {reference.status}\n{reference.out}{reference.err}")
        if self.mode == "plain":
            twin = next((t for t in TWINS if name.endswith(t)), None)
            if twin:
                original = self.without(program[:-len(twin)], spec)
                problems += difference("stdout against its twin", original.out, reference.out)
            return problems, reference.seconds, 0
        subject = self.with_shunt(program)
        if subject.status != reference.status:
            problems.append(f"status {subject.status}, without shunt {reference.status}\n{subject.err}")
        problems += difference("stdout", reference.out, subject.out)
        # shunt's own lines are allowed on stderr under `shunt run`, nothing at all under a bare preload.
        err = subject.err if self.mode in ("preload", "gpu") else own_lines_removed(subject.err)
        problems += difference("stderr", sorted_lines(reference.err), sorted_lines(err))
        if self.mode == "mixed" and name not in BOX_DEPENDENT:
            one = self.without(program, self.specs["plain"])
            problems += difference("stdout against the plain box", one.out, subject.out)
        return problems, reference.seconds, subject.seconds


def own_lines_removed(text):
    return "".join(line for line in text.splitlines(True) if not line.startswith("[shunt]"))


def sorted_lines(text):
    """Threads' assertion messages may come in any order."""
    return "".join(sorted(text.splitlines(True)))


def shortened(text, most=40):
    lines = text.rstrip().split("\n")
    return "\n".join(lines if len(lines) <= most else lines[:most] + [f"({len(lines) - most} more lines)"])


def difference(what, want, got):
    if want == got:
        return []
    lines = list(difflib.unified_diff(want.splitlines(), got.splitlines(), "without", "with", lineterm="", n=1))
    return [f"{what} differs:\n" + "\n".join(lines[:30])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder")
    parser.add_argument("--mode", choices=["plain", "preload", "b200", "rubin", "mixed", "gpu"], default="plain")
    parser.add_argument("--set", default="", choices=["", "graphs", "overlap"], help="a subfolder's programs instead")
    parser.add_argument("--static", action="store_true", help="the programs with a static CUDA runtime (gpu mode)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the runs with shunt")
    parser.add_argument("--timeout", type=float, default=60, help="seconds a run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true", help="print the programs' names")
    parser.add_argument("programs", nargs="*", help="names; default all")
    args = parser.parse_args()
    with open(os.path.join(args.build, "tests/apps", args.set, "programs.txt")) as f:
        names = f.read().split()
    if args.static:
        names = [n for n in names if n not in ("plugin", "c_program") and not n.startswith("drv_")]
    if args.list:
        print("\n".join(names))
        return 0
    for name in args.programs:
        if name not in names:
            sys.exit(f"run_apps: no program {name!r}; --list shows them")
    names = args.programs or names
    runner = Runner(args)
    failed = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for name, (problems, before, after) in zip(names, pool.map(runner.check, names)):
            shown = f"{before:6.2f} s" + (f" {after:6.2f} s" if args.mode != "plain" else "")
            print(f"{name:24} {shown}  {'FAILED' if problems else 'ok'}", flush=True)
            for problem in problems:
                print("    " + shortened(problem).replace("\n", "\n    "))
            if problems:
                failed.append(name)
    print(f"{args.mode}: {' '.join(failed) or 'no difference'}")
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
