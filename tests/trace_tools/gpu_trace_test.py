#!/usr/bin/env python3
"""Device times by CUPTI (--gpu-trace) on simgpu: every applied decision of tests/apps is tied to its device work by ids or says why
not, the program's output stays the same, and what goes wrong with CUPTI is named. Usage: gpu_trace_test.py --build DIR"""
import argparse
import collections
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

BUILD = ""
NO_WORK = " puts no work on a device"
FORK = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
def ok(code): assert code == 0, code
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
ok(cuda.cuInit(0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(cuda.cuCtxSetCurrent(context))
ok(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)))
ok(cuda.cuMemsetD8_v2(memory, 7, ctypes.c_size_t(4096)))
child = os.fork()
if child == 0:
    print("child", cuda.cuInit(0)); sys.stdout.flush()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
ok(cuda.cuMemsetD8_v2(memory, 8, ctypes.c_size_t(4096))); ok(cuda.cuCtxSynchronize())
"""


def tool(*arguments):
    return subprocess.run([os.path.join(BUILD, "bin/shunt"), "trace", *arguments], capture_output=True, text=True, check=True).stdout


class GpuTrace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = os.path.join(self.folder, "t.shunt")

    def environment(self, shunt, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_")) and k not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES")}
        env.update(LD_LIBRARY_PATH=os.path.join(BUILD, "lib/simgpu"), SIMGPU_SPEC="b200:1")
        if shunt:
            env.update(LD_PRELOAD=os.path.join(BUILD, "lib/libshunt.so"), SHUNT_TRACE=self.trace)
        env.update(extra)
        return env

    def run_app(self, *command, shunt=True, **extra):
        shutil.rmtree(self.trace, ignore_errors=True)
        if not os.path.isabs(command[0]):
            command = (os.path.join(BUILD, "tests/apps", command[0]), *command[1:])
        return subprocess.run(command, env=self.environment(shunt, **extra), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    def correlate(self):
        found = json.loads(tool("correlate", self.trace, "--json"))
        self.assertEqual(found["decisions"], sum(found["matched"].values()) + sum(found["unmatched"].values()))
        return found

    def some_replays(self, **extra):
        """llm_decode until it has replayed enough: the builder works beside the program, in real time."""
        for i in range(8):
            done = self.run_app("graphs/llm_decode", str(min(24 << i, 384)), SHUNT_GRAPHS="on", **extra)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = self.correlate()
            if found["decisions"] - found["without_work"] >= 20:
                return done, found
        self.fail("fewer than 20 replays in each of 8 runs")

    def programs(self, which):
        with open(os.path.join(BUILD, "tests/apps", which, "programs.txt")) as f:
            return [n for n in f.read().split() if not n.endswith(("_hand", "_two"))]

    def test_every_applied_decision_of_the_programs_is_matched(self):
        totals = collections.Counter()
        # The builder works beside the program, in real time: the long runs replay whatever the machine does.
        long = [("graphs/llm_decode", "384")] * 2
        for i, command in enumerate(long + [(n,) for n in self.programs("graphs") + self.programs("")]):
            name = command[0]
            with self.subTest(name):
                level = ("graph", "node")[i % 2]
                plain = self.run_app(*command, shunt=False)
                done = self.run_app(*command, SHUNT_GPU_TRACE=level, SHUNT_GRAPHS="on")
                self.assertEqual((done.returncode, done.stdout), (plain.returncode, plain.stdout))
                if not os.path.isdir(self.trace):
                    continue   # it never called CUDA
                found = self.correlate()
                causes = {c: n for c, n in found["unmatched"].items() if not c.endswith(NO_WORK)}
                self.assertEqual(causes, {}, name)
                totals["decisions"] += found["decisions"]
                totals["matched"] += sum(found["matched"].values())
                totals["device records"] += sum(json.loads(tool("summary", self.trace, "--json"))["gpu"][k] for k in ("kernels", "copies", "sets", "graphs"))
        print(dict(totals))
        self.assertGreater(totals["matched"], 100)
        self.assertGreater(totals["device records"], 1000)

    def test_a_decision_gets_its_own_work(self):
        """At node level a replay has as many device records as it stands for launches, and all of one graph launch."""
        self.some_replays(SHUNT_GPU_TRACE="node")
        path = os.path.join(self.folder, "out.sqlite")
        tool("export", self.trace, "--format", "sqlite", "-o", path)
        db = sqlite3.connect(path)
        replays = dict(db.execute("""SELECT decisionId, bytes FROM SHUNT_DECISIONS d JOIN StringIds s ON s.id = d.textId
                                     WHERE s.value LIKE '%graph-replay%'"""))
        work, calls = collections.Counter(), collections.defaultdict(set)
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            for decision, correlation in db.execute(f"SELECT shuntDecision, correlationId FROM CUPTI_ACTIVITY_KIND_{table} WHERE shuntDecision IS NOT NULL"):
                work[decision] += 1
                calls[decision].add(correlation)
        self.assertGreaterEqual(len(replays), 20)
        self.assertEqual(dict(work), replays)
        self.assertTrue(all(len(c) == 1 for c in calls.values()))
        named = db.execute("""SELECT DISTINCT s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId
                              JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId AND k.globalPid = (r.globalTid & 0xFFFFFFFFFF000000)
                              WHERE k.shuntDecision IS NOT NULL AND k.start >= r.start""").fetchall()
        self.assertEqual(named, [("cuGraphLaunch",)])

    def test_device_time_is_in_the_summary(self):
        self.some_replays(SHUNT_GPU_TRACE="graph")
        summary = json.loads(tool("summary", self.trace, "--json"))
        self.assertGreater(summary["features"]["graph"]["gpu_ns"], 0)
        self.assertIsNone(summary["features"]["process"]["gpu_ns"])
        self.assertLess(summary["features"]["graph"]["gpu_ns"], summary["seconds"] * 1e9)
        self.assertEqual(summary["features"]["graph"]["gpu_ns"], self.correlate()["gpu_ns"]["graph"])
        self.assertRegex(tool("summary", self.trace), r"(?m)^graph .* [\d.]+ [mu]?s ")

    def test_collectives_are_matched_or_have_a_cause(self):
        for name in self.programs("overlap"):
            done = self.run_app(name, SIMGPU_SPEC="b200:2", SHUNT_OVERLAP="on", SHUNT_GPU_TRACE="graph")
            self.assertEqual(done.returncode, 0, name + done.stderr)
            found = self.correlate()
            causes = {c for c in found["unmatched"] if not c.endswith(NO_WORK)}
            self.assertLessEqual(causes, {"CUPTI reported no driver call made for it"}, name)
            # Shunt's own streams have names where their work is shown.
            path = os.path.join(self.folder, "out.json")
            tool("export", self.trace, "--format", "chrome", "-f", "-o", path)
            with open(path) as f:
                names = {e["args"]["name"] for e in json.load(f)["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
            if found["decisions"] > found["without_work"]:
                self.assertTrue(any(re.fullmatch(r"stream \d+ \(shunt comm\)", n) for n in names), names)

    def test_the_holder_is_named_when_cupti_is_taken(self):
        for v2, holder in (("1", "Nsight Systems"), ("0", "another profiler")):
            done, found = self.some_replays(SHUNT_GPU_TRACE="graph", SIMGPU_CUPTI_HOLDER="Nsight Systems", SIMGPU_CUPTI_V2=v2)
            self.assertIn(f"CUPTI belongs to {holder}", done.stderr)
            self.assertIn("cupti-held", tool("summary", self.trace))
            self.assertEqual(found["matched"], {})
            self.assertEqual(set(c for c in found["unmatched"] if not c.endswith(NO_WORK)), {"CUPTI did not record: cupti-held"})

    def test_losses_are_counted_and_shown(self):
        done, found = self.some_replays(SHUNT_GPU_TRACE="graph", SIMGPU_FAULTS="cupti_drop%0.1,cupti_zero_stamp%0.1")
        summary = json.loads(tool("summary", self.trace, "--json"))["gpu"]
        self.assertGreater(summary["lost_records"], 0)
        self.assertGreater(summary["lost_stamps"], 0)
        self.assertIn(f"CUPTI lost {summary['lost_records']} records", done.stderr)
        self.assertRegex(tool("summary", self.trace), r"gpu times: cupti, [\d,]+ lost, [\d,]+ without stamps")
        self.assertIn("CUPTI lost", tool("check", self.trace))
        causes = set(c for c in found["unmatched"] if not c.endswith(NO_WORK))
        self.assertTrue(causes)
        self.assertLessEqual(causes, {"its work had no stamps: unfinished at exit, or lost by CUPTI", "CUPTI lost records"})

    def test_without_the_library_or_without_a_request(self):
        bare = os.path.join(self.folder, "bare")
        os.mkdir(bare)
        for name in os.listdir(os.path.join(BUILD, "lib/simgpu")):
            if "cupti" not in name:
                os.symlink(os.path.join(BUILD, "lib/simgpu", name), os.path.join(bare, name))
        done = self.run_app("vecadd", SHUNT_GPU_TRACE="node", LD_LIBRARY_PATH=bare, CUDA_HOME="", CUDA_PATH="")
        self.assertEqual(done.returncode, 0, done.stderr)
        # A toolkit's own library may be found then, which does not work on simgpu.
        self.assertRegex(done.stderr, r"^\[shunt\] warning: no device times: .+ \[(cupti-missing|cupti-refused)\]\n$")
        self.assertRegex(tool("summary", self.trace), "gpu times: none, cupti-(missing|refused)")
        self.some_replays()
        self.assertEqual(json.loads(tool("summary", self.trace, "--json"))["gpu"]["kernels"], 0)
        self.assertIn("no device times in the trace: run with --gpu-trace=graph|node", self.correlate()["unmatched"])
        done = self.run_app("vecadd", SHUNT_GPU_TRACE="graph", SHUNT_TRACE="")
        self.assertIn("--gpu-trace needs a trace", done.stderr)

    def test_a_killed_process_says_what_is_missing(self):
        done = self.run_app("/bin/sh", "-c", os.path.join(BUILD, "tests/apps/graphs/jacobi") + " 1000000 & sleep 1.5; kill -9 $!; wait $! 2>/dev/null; true",
                            SHUNT_GPU_TRACE="graph", SHUNT_GRAPHS="on")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = self.correlate()
        self.assertLessEqual(set(c for c in found["unmatched"] if not c.endswith(NO_WORK)), {"the process ended before CUPTI gave its records back"})

    def test_a_fork_child_leaves_cupti_alone(self):
        done = self.run_app(sys.executable, "-c", FORK, SHUNT_GPU_TRACE="graph")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("child ", done.stdout)
        gpu = json.loads(tool("summary", self.trace, "--json"))["gpu"]
        self.assertEqual(gpu["sets"], 2)
        self.assertIn("closed", tool("check", self.trace))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    known, rest = parser.parse_known_args()
    BUILD = os.path.abspath(known.build)
    unittest.main(argv=[__file__, *rest])
