#!/usr/bin/env python3
"""HolisticTraceAnalysis (PyPI) reads the Chrome export of a real run and agrees with shunt about it: kernels, streams, busy time, and which
call started which kernel. Usage: hta_test.py --build DIR
Runs in the interpreter of .venv, where `scripts/setup --tests` puts the package; where it could not be installed the test skips."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"   # else it counts in whole microseconds, longer than many kernels
try:
    from hta.trace_analysis import TraceAnalysis
except ImportError:
    python = os.environ.get("SHUNT_TEST_PYTHON", str(ROOT / ".venv/bin/python"))
    if os.environ.get("SHUNT_HTA_TRIED") or not os.access(python, os.X_OK):
        print("skipped: HolisticTraceAnalysis is not installed (scripts/setup --tests puts it into .venv)")
        sys.exit(77)
    os.execve(python, [python, *sys.argv], dict(os.environ, SHUNT_HTA_TRIED="1"))


def export(build, folder, level):
    run, out = os.path.join(folder, level + ".shunt"), os.path.join(folder, level + ".json")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_")) and k not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES")}
    subprocess.run([os.path.join(build, "tests/apps/graphs/llm_decode"), "48"], check=True, stdout=subprocess.DEVNULL,
                   env=dict(env, LD_LIBRARY_PATH=os.path.join(build, "lib/simgpu"), LD_PRELOAD=os.path.join(build, "lib/libshunt.so"), SIMGPU_SPEC="b200:1",
                            SHUNT_TRACE=run, SHUNT_GPU_TRACE=level, SHUNT_GRAPHS="on"))
    subprocess.run([os.path.join(build, "bin/shunt"), "trace", "export", run, "--format", "chrome", "-o", out], check=True, stderr=subprocess.DEVNULL)
    return out


def busy_us(events):
    """Microseconds with at least one of them."""
    total, end = 0, 0
    for start, stop in sorted((e["ts"], e["ts"] + e["dur"]) for e in events):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def judge(path):
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))
    frame = analysis.t.get_trace(0)
    device = frame[frame["stream"].ne(-1)]
    assert len(device) == len(work) > 500, (len(device), len(work))
    assert set(device["stream"]) == {e["tid"] for e in work}
    # Every device row finds the call that made it, and only calls do: one for all nodes of a graph.
    linked = device[device["index_correlation"].gt(0)]
    assert len(linked) == len(work), f"{len(linked)} of {len(work)} device rows have their call"
    breakdown = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    busy = breakdown["kernel_time(us)"] - breakdown["idle_time(us)"]
    assert abs(busy - busy_us(work)) <= 0.01 * busy, (busy, busy_us(work))
    assert breakdown["kernel_time(us)"] > 0 and breakdown["idle_time(us)"] >= 0
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    assert not kinds.empty
    assert any("matvec" in str(name) for name in kernels["name"]) or "graph" in path
    assert not analysis.get_idle_time_breakdown(visualize=False)[0].empty
    print(f"{os.path.basename(path)}: {len(work)} device rows, {len(set(device['stream']))} streams, busy {busy} us of {breakdown['kernel_time(us)']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    with tempfile.TemporaryDirectory() as folder:
        for level in ("graph", "node"):
            judge(export(build, folder, level))
    return 0


if __name__ == "__main__":
    sys.exit(main())
