#!/usr/bin/env python3
"""Recording a task graph changes nothing a program can see, and the file is usable however the program ends."""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import json
import unittest

BUILD = ""
APPS = ["vecadd", "multi_stream_events", "graph_capture", "multi_device_peer", "default_streams", "default_streams_ptds", "memory_pools",
        "managed_multi", "error_codes", "lifecycle", "thrust_sort", "launch_forms", "pinned_mapped", "drv_dlopen"]


class Record(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "run.ops")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_"))}
        self.env["HOME"] = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def run_app(self, app, *flags, **more):
        path = os.path.join(BUILD, "tests/apps", app)
        return subprocess.run([os.path.join(BUILD, "bin/shunt"), "run", "-q", "--sim", "b200:2", *flags, "--", path], env=self.env,
                              capture_output=True, timeout=120, cwd=os.path.dirname(path), **more)

    def plan(self, path):
        done = subprocess.run([os.path.join(BUILD, "bin/shunt"), "plan", path, "--devices", "b200:1,rubin:1", "--json"],
                              env=self.env, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_same_output_and_a_plan(self):
        recorded = 0
        for app in APPS:
            with self.subTest(app=app):
                for old in pathlib.Path(self.folder.name).glob("run.ops*"):
                    old.unlink()
                plain = self.run_app(app, "--graphs=off", "--overlap=off")
                watched = self.run_app(app, "--record-dag", self.file)
                self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (watched.returncode, watched.stdout, watched.stderr))
                if not os.path.exists(self.file):
                    continue
                text = pathlib.Path(self.file).read_text()
                self.assertRegex(text.splitlines()[-1], r"^end \d+ 0$")
                recorded += 1
                self.assertEqual(self.plan(self.file)["tasks"], text.count("\nop "))
        self.assertGreaterEqual(recorded, 10)

    def test_killed_programs_leave_a_usable_file(self):
        rng = random.Random(5)
        usable = 0
        for _ in range(6):
            pathlib.Path(self.file).unlink(missing_ok=True)
            path = os.path.join(BUILD, "tests/apps/thrust_sort")
            child = subprocess.Popen([os.path.join(BUILD, "bin/shunt"), "run", "-q", "--sim", "b200:1", "--record-dag", self.file, "--", path],
                                     env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                child.wait(timeout=rng.uniform(0.05, 0.4))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                child.wait()
            if os.path.exists(self.file) and "\nop " in pathlib.Path(self.file).read_text():
                self.plan(self.file)
                usable += 1
        self.assertGreaterEqual(usable, 1, "no run got far enough to be killed while recording")

    def test_old_files_and_bad_places(self):
        pathlib.Path(self.file).write_text("mine")
        refused = self.run_app("vecadd", "--record-dag", self.file)
        self.assertEqual(refused.returncode, 125)
        self.assertIn(b"exists; give -f", refused.stderr)
        self.assertEqual(pathlib.Path(self.file).read_text(), "mine")
        self.assertEqual(self.run_app("vecadd", "-f", "--record-dag", self.file).returncode, 0)
        self.assertTrue(pathlib.Path(self.file).read_text().startswith("shunt-ops 1\n"))
        refused = self.run_app("vecadd", "--record-dag", os.path.join(self.folder.name, "none/run.ops"))
        self.assertEqual(refused.returncode, 125)

    def test_engines_step_aside_and_say_so(self):
        trace = os.path.join(self.folder.name, "t")
        self.assertEqual(self.run_app("vecadd", "--record-dag", self.file, "-o", trace).returncode, 0)
        summary = subprocess.run([os.path.join(BUILD, "bin/shunt"), "trace", "summary", trace + ".shunt"], capture_output=True, text=True,
                                 env=self.env)
        self.assertIn("recording-tasks", summary.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    unittest.main(argv=[sys.argv[0], *rest])
