#!/usr/bin/env python3
"""Rows of simgpu's judging over many seeds: tests/driver/seed_test with 1,000 of them (100 with --quick, --seeds N).

An ordered program must give one result, a racy one and every planted race a report, one seed one timeline.
"""
import json
import os
import re
import subprocess
import sys
import time

build = os.environ.get("SHUNT_BUILD", "build")
args = sys.argv[1:]
seeds = 100 if "--quick" in args else 1000
if "--seeds" in args[:-1]:
    seeds = int(args[args.index("--seeds") + 1])
CASES = {"OrderedProgramsGiveOneResult": "seeds_ordered_differences", "RacyProgramsAreReported": "seeds_racy_missed",
         "PlantedRacesAreFound": "seeds_planted_missed", "OneSeedOneTimeline": "seeds_timelines_differing"}
program = os.path.join(build, "tests/driver_seed_test")
failed = False
for case, row in CASES.items():
    env = dict(os.environ, SIMGPU_TEST_SEEDS=str(seeds))
    start = time.monotonic()
    done = subprocess.run([program, f"--gtest_filter=Seeds.{case}"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    took = time.monotonic() - start
    count = len(re.findall(r"^\S+:\d+: Failure$", done.stdout, re.M))
    if done.returncode not in (0, 1) or "1 test from 1 test suite ran" not in done.stdout:
        print(f"chaos_seeds_bench: {case} did not run: status {done.returncode}", file=sys.stderr)
        failed = True
        continue
    print(f"chaos_seeds_bench: {case}: {seeds} seeds, {count} failures, {took:.1f} s", file=sys.stderr)
    print(json.dumps({"name": row, "value": count, "unit": "runs", "runs": (seeds + 9) // 10 * 2 if case == "OneSeedOneTimeline" else seeds, "min": count, "max": count,
                      "baseline": "none may fail", "baseline_value": 0, "budget": 0, "better": "equal"}))
sys.exit(1 if failed else 0)
