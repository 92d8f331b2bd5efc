#!/usr/bin/env python3
"""Random programs with and without the graphs engine: return codes, memory, what the host read and what host functions saw
must be equal, and no race may be added.

  random_test.py --build DIR [--seeds N] [--first N] [--jobs N] [--rows]

Runs seeds in batches, each once plainly and once under the preload. Some batches meet injected failures: of allocations (both
sides) or of driver calls that only the engine makes. The share of launches really replayed is counted from simgpu's timeline,
not from what the engine says of itself. --rows: one JSON row a figure, for scripts/bench. Exit status 1 at any difference.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

# Driver functions that only the engine calls when programs capture nothing themselves, with a code each may give.
ENGINE_SITES = ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams",
                "cuFuncGetParamInfo", "cuGraphExecDestroy"]
# What a set of programs must meet to count as a test, per 100 programs.
REQUIRED = {"a loop worth following": 60, "a loop too short": 10, "a parameter that changes": 1000, "buffers swapped": 100, "a step left out": 50,
            "one thread": 20, "threads side by side": 10, "threads taking turns": 10, "order from the default stream alone": 20,
            "streams ordered by an event": 200, "a working stream destroyed": 2, "memory freed while kernels may still run": 3,
            "a synchronous copy that waits by itself": 1, "launch into the legacy stream": 200, "launch into the per-thread stream": 200,
            "launch_bad": 20, "launch_ex": 50, "launch_extra": 50, "launch_shared": 5, "capture": 3, "capture_bad": 1, "watch": 3,
            "module_load": 2, "function_attribute": 5, "cache_config": 3, "stream_attribute": 3, "pool_trim": 1, "alloc_async": 20,
            "host_function": 20, "stream_callback": 5, "copy_pageable": 20, "copy_in": 20, "copy_out": 20, "copy_sync": 2,
            "event_poll": 20, "stream_poll": 20, "context_sync": 2}
LEAST_REPLAYED_PCT = 5.0   # of launches outside the programs' own graphs


class Side:
    def __init__(self, out, err, status, timeline):
        self.seeds, self.reached = {}, collections.Counter()
        for line in out.splitlines():
            if line.startswith("seed "):
                self.seeds[int(line.split()[1])] = line
            elif line.startswith("reached "):
                _, times, what = line.split(" ", 2)
                self.reached[what] += int(times)
        self.status = status
        # Reuse of pool memory after a free that the host has seen done: reported by chance with and without shunt, so
        # counted apart.
        found = [line for line in err.splitlines() if "simgpu: race" in line]
        self.reuse = sum("'free'" in line for line in found)
        self.races = len(found) - self.reuse
        self.struck = err.count("fault injected")
        self.errors = "\n".join(l for l in err.splitlines() if "simgpu: race" not in l and "fault injected" not in l)[:2000]
        self.in_graphs = self.kernels = 0
        if timeline:
            with open(timeline) as f:
                for line in f:
                    if '"kind":"kernel"' in line:
                        self.kernels += 1
                        self.in_graphs += '"graph":' in line


class Runner:
    def __init__(self, build, timeout):
        self.build, self.timeout = os.path.abspath(build), timeout
        self.program = os.path.join(self.build, "tests/graphs/random_program")
        self.ptx = os.path.join(self.build, "tests/graphs/random_kernels.ptx")

    def side(self, first, count, shunt, faults="", captures=True, turns=False, timeline=False):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_")) and k not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES")}
        env.update(LD_LIBRARY_PATH=os.path.join(self.build, "lib/simgpu"), SIMGPU_SPEC="b200:1", SIMGPU_RACES="report", SIMGPU_HOST_PAGES="off")
        if faults:
            env.update(SIMGPU_FAULTS=faults, SIMGPU_LOG="info")
        if shunt:
            env.update(LD_PRELOAD=os.path.join(self.build, "lib/libshunt.so"), SHUNT_GRAPHS="on", SHUNT_OVERLAP="off", SHUNT_OOM="off", SHUNT_PLACEMENT="off")
        command = [self.program, self.ptx, str(first), str(count)] + ([] if captures else ["--no-captures"]) + (["--turns"] if turns else [])
        with tempfile.NamedTemporaryFile(prefix="random_timeline") as file:
            if timeline:
                env["SIMGPU_TIMELINE"] = file.name
            try:
                done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=self.timeout)
                out, err, status = done.stdout, done.stderr, done.returncode
            except subprocess.TimeoutExpired as e:
                out, err, status = e.stdout or b"", e.stderr or b"", "hang"
            return Side(out.decode(errors="replace"), err.decode(errors="replace"), status, file.name if timeline else None)

    def batch(self, first, count, kind, timeline):
        """(plain, under shunt, problems)"""
        both = {"allocations": "alloc%0.05,alloc_async%0.05", "plain": ""}.get(kind, "")
        captures = not kind.startswith("call:")
        turns = kind == "allocations"
        plain = self.side(first, count, False, both, captures, turns, timeline)
        under = self.side(first, count, True, kind if kind.startswith("call:") else both, captures, turns, timeline)
        problems = []
        for seed in range(first, first + count):
            a, b = plain.seeds.get(seed), under.seeds.get(seed)
            if a is None or a != b:
                problems.append(f"seed {seed} [{kind}]\n  plain {a}\n  shunt {b}")
                if a is None or b is None:
                    break   # what follows did not run
        if (plain.status, under.status) != (0, 0):
            problems.append(f"seeds {first}..{first + count - 1} [{kind}]: status {plain.status}, under shunt {under.status}\n{under.errors}")
        return plain, under, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds", type=int, default=120)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds a batch: longer is a hang")
    parser.add_argument("--rows", action="store_true")
    args = parser.parse_args()
    runner = Runner(args.build, args.timeout)
    size = 20
    kinds = ["plain", "plain", "plain", "allocations"] + [f"call:{s}%0.3" for s in ENGINE_SITES]
    work = []
    for i, first in enumerate(range(args.first, args.first + args.seeds, size)):
        # Failures take turns: every second batch has some. The timeline is written for a third of the batches.
        kind = "plain" if i % 2 == 0 else kinds[3 + (i // 2) % (len(kinds) - 3)]
        work.append((first, min(size, args.first + args.seeds - first), kind, i % 3 == 0))
    programs = differences = races = plain_races = hangs = struck = reuse = kernels = replayed = 0
    swept, reached, problems = set(), collections.Counter(), []
    wanted = {w[2] for w in work if w[2].startswith("call:")}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        # The engine learns in real time: on a busy machine it may come too late for a failure to strike in one batch.
        for further in range(4):
            for (first, count, kind, timeline), (plain, under, found) in zip(work, pool.map(lambda w: runner.batch(*w), work)):
                programs += len(under.seeds)
                differences += len(found)
                hangs += under.status == "hang"
                plain_races += plain.races
                reuse += under.reuse - plain.reuse
                races += max(0, under.races - plain.races)
                reached.update(plain.reached)
                problems += found
                struck += under.struck
                if kind.startswith("call:") and under.struck:
                    swept.add(kind)
                if timeline and kind == "plain":
                    kernels += plain.kernels - plain.in_graphs
                    replayed += under.in_graphs - plain.in_graphs
                for p in found[:3]:
                    print(p, file=sys.stderr)
            work = [(args.first + args.seeds + size * (len(ENGINE_SITES) * further + i), size, kind, False)
                    for i, kind in enumerate(sorted(wanted - swept))]
            if not work:
                break
    share = 100 * replayed / max(1, kernels)
    figures = [("programs_graphs", programs, "", None, "higher"), ("ops_applied_pct_graphs", share, "%", 20, "higher"),
               ("differences_graphs", differences, "", 0, "equal"), ("races_added_graphs", races, "", 0, "equal"), ("hangs_graphs", hangs, "", 0, "equal"),
               ("fault_sites_swept_pct_graphs", 100 * len(swept) / len(ENGINE_SITES), "%", 100, "higher")]
    if args.rows:
        for name, value, unit, budget, better in figures:
            row = {"name": name, "value": value, "unit": unit, "runs": max(1, programs // size), "min": value, "max": value, "better": better}
            print(json.dumps(row | ({} if budget is None else {"budget": budget})))
    # Where the set is large enough to tell.
    missing = [f"{what}: {reached[what]}, wanted {least * programs // 100}" for what, least in REQUIRED.items()
               if programs >= 100 and reached[what] < least * programs // 100]
    out = sys.stderr if args.rows else sys.stdout
    print(f"{programs} programs, {differences} differences, {races} races added ({plain_races} without shunt; {reuse:+} reports of reused pool memory), {hangs} hangs, "
          f"{share:.1f} % of {kernels} launches replayed, {struck} injected failures, {len(swept)} of {len(ENGINE_SITES)} engine calls failed", file=out)
    for m in missing:
        print("not reached: " + m, file=out)
    bad = []
    if differences or races or hangs:
        bad.append("the runs differ")
    if plain_races:
        bad.append("the programs themselves have races")
    if missing:
        bad.append("situations were not reached")
    if wanted - swept:
        bad.append("no failure struck: " + " ".join(sorted(wanted - swept)))
    if share < LEAST_REPLAYED_PCT:
        bad.append(f"less than {LEAST_REPLAYED_PCT} % replayed: nothing was tested")
    if bad:
        print("FAILED: " + "; ".join(bad), file=out)
    return 0 if args.rows and not (differences or hangs) else 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
