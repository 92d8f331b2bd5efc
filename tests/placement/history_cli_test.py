#!/usr/bin/env python3
"""`shunt history` and `shunt explain` from outside, on simulated boxes."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = ""


class History(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_")) and not k.startswith("XDG_")}
        self.env["HOME"] = self.folder.name
        self.state = pathlib.Path(self.folder.name) / ".local/state/shunt"

    def tearDown(self):
        self.folder.cleanup()

    def shunt(self, *arguments, env=None, status=0):
        done = subprocess.run([os.path.join(BUILD, "bin/shunt"), *arguments], env=env or self.env, capture_output=True, text=True, timeout=60,
                              cwd=self.folder.name)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr)
        return done

    def app(self, name):
        return os.path.join(BUILD, "tests/apps", name)

    def history(self):
        return json.loads(self.shunt("history", "--sim", "--json").stdout)

    def record(self, name, app="vecadd"):
        self.shunt("run", "-q", "--sim", "b200:1", "--record-dag", name, "--", self.app(app))
        return os.path.join(self.folder.name, name)

    def test_runs_are_counted_and_used(self):
        for _ in range(6):
            self.shunt("run", "-q", "--sim", "b200:1", "--history=on", "--", self.app("vecadd"))
        h = self.history()
        self.assertEqual([p["runs"] for p in h["programs"]], [6])
        self.assertEqual(h["programs"][0]["peak_bytes"], 1200036)
        self.assertEqual([(k["device"], k["samples"]) for k in h["kernels"]], [("b200", 6)])
        self.assertEqual(list((self.state / "pending").iterdir()), [])
        done = self.shunt("run", "-o", "r", "--sim", "b200:1,rubin:1", "--history=use", "--", self.app("vecadd"))
        self.assertIn("(history)", done.stderr)
        shown = json.loads(self.shunt("explain", "r", "--json").stdout)
        self.assertEqual(shown["placement"]["need_source"], "history")
        self.assertEqual([d["predicted"]["source"] for d in shown["devices"]], ["measured", "scaled"])
        text = self.shunt("explain", "r").stdout
        for words in ("largest working set of earlier runs", "measured, n=6", "scaled from b200", "[D]", "[A]", "simulated box", "shipped with shunt"):
            self.assertIn(words, text)
        # Other arguments are another program.
        other = self.shunt("run", "--sim", "b200:1", "--history=use", "--", self.app("vecadd"), "x", status=None)
        self.assertNotIn("(history)", other.stderr)
        self.assertEqual(json.loads(self.shunt("history", "--json").stdout)["programs"], [], "simulated times stay apart")
        self.shunt("history", "forget", "--sim")
        self.assertEqual(self.history()["programs"], [])

    def test_recordings_count_once(self):
        file = self.record("a.ops")
        self.assertIn("tasks of", self.shunt("history", "add", file).stdout)
        self.assertIn("already there", self.shunt("history", "add", file).stdout)
        self.assertEqual(self.history()["programs"][0]["runs"], 1)

    def test_bad_recordings_are_refused(self):
        bad = pathlib.Path(self.folder.name) / "bad.ops"
        for text in ("", "hello", "shunt-ops 1\nop x\n", "shunt-ops 9\n"):
            bad.write_text(text)
            done = self.shunt("history", "add", str(bad), status=1)
            self.assertIn("bad.ops", done.stderr)
        self.shunt("history", "add", "/none", status=1)
        self.shunt("history", "frobnicate", status=125)

    def test_damaged_database_is_set_aside(self):
        file = self.record("a.ops")
        self.shunt("history", "add", file)
        database = self.state / "history-sim.db"
        database.write_bytes(b"not a database, but something of somebody" * 100)
        done = self.shunt("run", "--sim", "b200:1", "--history=use", "--", self.app("vecadd"))
        self.assertIn("is damaged: moved to", done.stderr)
        self.assertTrue((self.state / "history-sim.db.damaged").read_bytes().startswith(b"not a database"))
        self.assertIn("tasks of", self.shunt("history", "add", file).stdout)

    def test_unwritable_state_never_stops_a_program(self):
        env = dict(self.env, XDG_STATE_HOME="/proc/none")
        done = self.shunt("run", "--sim", "b200:1", "--history=use", "--", self.app("vecadd"), env=env)
        self.assertIn("goes on without history", done.stderr)
        self.assertIn("PASSED", done.stdout)

    def test_eight_at_once(self):
        files = [self.record(f"{i}.ops") for i in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda f: self.shunt("history", "add", f), files))
        h = self.history()
        self.assertEqual((h["programs"][0]["runs"], h["kernels"][0]["samples"]), (8, 8))

    def test_snapshot_serves_a_bare_preload(self):
        self.shunt("history", "add", self.record("a.ops", "vecadd"))
        snap = os.path.join(self.folder.name, "h.snap")
        self.assertIn("1 programs", self.shunt("history", "snapshot", snap, "--sim").stdout)
        lib = os.path.join(BUILD, "lib")
        env = dict(self.env, LD_PRELOAD=f"{lib}/libshunt.so", LD_LIBRARY_PATH=f"{lib}/simgpu", SIMGPU_SPEC="b200:1@mem=1MiB,b200:1",
                   SHUNT_HISTORY_SNAPSHOT=snap, CUDA_DEVICE_ORDER="PCI_BUS_ID", SHUNT_LOG="info")
        run = lambda e: subprocess.run([self.app("vecadd")], env=e, capture_output=True, text=True, timeout=60)
        done = run(env)
        self.assertIn("(history)", done.stderr)
        pathlib.Path(snap).write_bytes(b"junk")
        done = run(dict(env, SIMGPU_SPEC="b200:2"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("shunt history snapshot", done.stderr)

    def test_explain_errors(self):
        self.assertIn("no run 'none'", self.shunt("explain", "none", status=125).stderr)
        folder = pathlib.Path(self.folder.name) / "x.shunt"
        folder.mkdir()
        for text in ("", "{}", "[1]", '{"placement": 3}', '{"placement": {"why": 7}}'):
            (folder / "run.json").write_text(text)
            self.assertIn("explain:", self.shunt("explain", "x", status=1).stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    unittest.main(argv=[sys.argv[0], *rest])
