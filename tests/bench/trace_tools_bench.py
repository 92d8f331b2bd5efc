#!/usr/bin/env python3
"""Rows of the trace verbs: time and resident size over ten million records (one million with --quick, scaled and named so).
The baseline is reading the same bytes once."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

build = os.environ.get("SHUNT_BUILD", "build")
quick = "--quick" in sys.argv
runs = max(5, next((int(a[7:]) for a in sys.argv if a.startswith("--runs=")), 5))
count = 1_000_000 if quick else 10_000_000
scale = 10 if quick else 1


def timed(command):
    """Seconds and peak resident MiB of one command."""
    start = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"trace_tools_bench: {' '.join(command)} failed with {status}")
    return time.monotonic() - start, usage.ru_maxrss / 1024


def read_once(folder):
    start = time.monotonic()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb", buffering=0) as f:
            while f.read(1 << 20):
                pass
    return time.monotonic() - start


def emit(name, values, unit, budget, baseline):
    row = {"name": name, "value": statistics.median(values), "unit": unit, "runs": len(values), "min": min(values), "max": max(values), "better": "lower",
           "baseline": "reading the trace once, s" + (" (a tenth of the records, times ten)" if quick else ""), "baseline_value": statistics.median(baseline)}
    if budget:
        row["budget"] = budget
    print(json.dumps(row), flush=True)


folder = tempfile.mkdtemp(prefix="shunt-bench-")
try:
    run = os.path.join(folder, "run.shunt")
    subprocess.run([os.path.join(build, "tests/make_trace"), run, str(count)], check=True, stdout=subprocess.DEVNULL)
    shunt = os.path.join(build, "bin/shunt")
    verbs = {"summary_10m_s": (["summary", run, "--json"], 2)}
    for form in ("perfetto", "chrome", "sqlite", "csv"):
        verbs[f"export_{form}_10m_s"] = (["export", run, "--format", form, "-f", "-o", os.path.join(folder, "out." + form)], 10)
    peak = []
    for name, (arguments, budget) in verbs.items():
        times, baseline = [], []
        for _ in range(runs):
            baseline.append(read_once(run) * scale)
            seconds, rss = timed([shunt, "trace", *arguments])
            times.append(seconds * scale)
            if "export" in name:
                peak.append(rss)
        emit(name, times, "s", budget, baseline)
        for f in os.listdir(folder):
            if f.startswith("out."):
                os.unlink(os.path.join(folder, f))
    emit("export_rss_mib", peak, "MiB", 300, baseline)
finally:
    shutil.rmtree(folder)
