#!/usr/bin/env python3
"""What kernels touch lies inside what the access analysis predicts, for every kernel that a program of tests/apps (Thrust's and
CUB's among them) launches, at every launch. Prints how many are proven and why the others are not.

  analysis_test.py --build DIR
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

LEAST = 60  # kernels whose prediction must have been compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    apps = os.path.join(build, "tests/apps")
    programs = []
    for folder in ("", "graphs", "overlap"):
        listed = os.path.join(apps, folder, "programs.txt")
        if os.path.exists(listed):
            with open(listed) as f:
                programs += [os.path.join(apps, folder if "/" not in name else "", name) for name in f.read().split()]
    seen = collections.defaultdict(set)  # what was found -> kernels
    reasons = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        def run(number):
            lines = os.path.join(scratch, str(number))
            env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_")) and k != "LD_PRELOAD"}
            env.update(LD_LIBRARY_PATH=os.path.join(build, "lib/simgpu"), SIMGPU_SPEC="b200:2", SIMGPU_ACCESS_CHECK=lines)
            # A program may end with the error it is about; what it has launched until then counts.
            subprocess.run([programs[number]], env=env, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=120)
            if not os.path.exists(lines):
                return []
            with open(lines) as f:
                return [(os.path.basename(programs[number]), *line.rstrip("\n").split(" ", 1)) for line in f]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(run, range(len(programs))):
                for program, what, text in found:
                    name, _, why = text.partition(": ")
                    seen[what].add((program, name))
                    if what == "unknown":
                        reasons[re.sub(r"^line \d+: ", "", why)] += 1
                    if what == "outside":
                        print(f"{program}: {name} touches what was not predicted: {why}")
    checked, unknown, outside = (len(seen[k]) for k in ("checked", "unknown", "outside"))
    print(f"{len(programs)} programs, {checked + unknown + outside} kernels: {checked} inside their prediction, {unknown} not analysed, {outside} outside")
    for why, count in reasons.most_common():
        print(f"  {count:3} {why}")
    if outside:
        return 1
    if checked < LEAST:
        return f"only {checked} kernels were compared, {LEAST} at least are there"
    return 0


if __name__ == "__main__":
    sys.exit(main())
