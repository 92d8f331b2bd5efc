#!/usr/bin/env python3
"""A replay names the launches it stands for: every graph-replay decision of the trace has its NVTX range, with its id and as
many launches, and the device ran that many kernels in graphs.

  nvtx_test.py --build DIR
"""
import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile


LEAST = 10      # replays to judge by
ATTEMPTS = 8    # the builder works beside the program, in real time: on a busy machine it takes a longer one


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    for i in range(ATTEMPTS):
        if attempt(build, min(24 << i, 384)) >= LEAST:
            return 0
    return f"fewer than {LEAST} replays in each of {ATTEMPTS} runs"


def attempt(build, tokens):
    tool = os.path.join(build, "lib/libnvtx_tool.so")
    with tempfile.TemporaryDirectory() as folder:
        log, trace, timeline, table = (os.path.join(folder, n) for n in ("nvtx.log", "t.shunt", "timeline", "t.csv"))
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_"))}
        env.update(LD_LIBRARY_PATH=os.path.join(build, "lib/simgpu"), LD_PRELOAD=os.path.join(build, "lib/libshunt.so"), SIMGPU_SPEC="b200:1",
                   SIMGPU_TIMELINE=timeline, SHUNT_TRACE=trace, NVTX_INJECTION64_PATH=tool, NVTX_TOOL_LOG=log)
        subprocess.run([os.path.join(build, "tests/apps/graphs/llm_decode"), str(tokens)], env=env, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([os.path.join(build, "bin/shunt"), "trace", "export", "--format", "csv", trace, "-o", table], check=True,
                       stdout=subprocess.DEVNULL)
        with open(table) as f:
            replays = {line[8]: int(line[12]) for line in csv.reader(f) if len(line) > 12 and line[5] == "graph:graph-replay" and line[6] == "applied"}
        with open(log) as f:
            lines = f.read().splitlines()
        with open(timeline) as f:
            in_graphs = sum('"kind":"kernel"' in line and '"graph":' in line for line in f)
    ranges = {}
    for line in lines:
        found = re.fullmatch(r"push shunt\|\d+\|(\d+)\|graph of (\d+) launches: (.+)", line)
        if found:
            ranges[found[1]] = int(found[2])
            assert "matvec" in found[3] or "silu" in found[3] or "attend" in found[3], line
    print(f"{len(replays)} replays, {len(ranges)} ranges, {sum(replays.values())} launches replayed, {in_graphs} kernels ran in graphs")
    assert ranges == replays, "ranges and decisions differ"
    assert in_graphs == sum(replays.values()), "the device ran another number of kernels in graphs"
    assert sum(line.startswith("pop shunt") for line in lines) == len(ranges)
    if replays:
        assert any("|shunt-graphs" in line for line in lines if line.startswith("thread ")), "the builder has no name"
    return len(replays)


if __name__ == "__main__":
    sys.exit(main())
