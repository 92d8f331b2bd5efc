#!/usr/bin/env python3
"""Rows of the trace verbs: time and resident size over ten million records (one million with --quick, scaled and named so).
The baseline is reading the same bytes once. The report is of one million records with device times; opening it is beside a blank page."""
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


def opened(browser, page, folder):
    """Seconds until headless Chromium has laid the page out, painted it and written the picture."""
    start = time.monotonic()
    subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,4000", f"--user-data-dir={folder}/profile",
                    f"--screenshot={folder}/page.png", page], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    return time.monotonic() - start


def report_rows(folder, shunt):
    run, page = os.path.join(folder, "report.shunt"), os.path.join(folder, "report.html")
    subprocess.run([os.path.join(build, "tests/make_trace"), run, "1000000", "gpu"], check=True, stdout=subprocess.DEVNULL)
    times, baseline = [], []
    for _ in range(runs):
        baseline.append(read_once(run))
        times.append(timed([shunt, "trace", "report", run, "-f", "-o", page])[0])
    emit("report_1m_write_s", times, "s", None, baseline)
    emit("report_1m_mb", [os.path.getsize(page) / 1e6] * 5, "MB", 10, [sum(os.path.getsize(os.path.join(run, n)) for n in os.listdir(run)) / 1e6], "size of the trace, MB")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        print("trace_tools_bench: no chromium: report_1m_open_s is left out", file=sys.stderr)
        return
    blank = os.path.join(folder, "blank.html")
    with open(blank, "w") as f:
        f.write("<!doctype html><title>blank</title>")
    opened(browser, "file://" + blank, folder)   # the profile is made once
    times, baseline = [], []
    for _ in range(runs):
        baseline.append(opened(browser, "file://" + blank, folder))
        times.append(opened(browser, "file://" + page, folder))
    emit("report_1m_open_s", times, "s", 3, baseline, "a blank page, s")


def emit(name, values, unit, budget, baseline, what=None):
    row = {"name": name, "value": statistics.median(values), "unit": unit, "runs": len(values), "min": min(values), "max": max(values), "better": "lower",
           "baseline": what or "reading the trace once, s" + (" (a tenth of the records, times ten)" if quick and "10m" in name else ""), "baseline_value": statistics.median(baseline)}
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
    shutil.rmtree(run)
    report_rows(folder, shunt)
finally:
    shutil.rmtree(folder)
