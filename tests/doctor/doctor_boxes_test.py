#!/usr/bin/env python3
"""`shunt doctor` on simulated boxes with one thing wrong each, and on programs that do not fit.

  doctor_boxes_test.py --build build
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = ""


class Doctor(unittest.TestCase):
    def run_doctor(self, *arguments, status, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_", "CUDA_", "NCCL_", "LD_"))}
        done = subprocess.run([f"{BUILD}/bin/shunt", "doctor", *arguments], capture_output=True, text=True, timeout=60, env={**clean, **env})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr if status < 3 else "", "")
        return done

    def findings(self, *arguments, status, **env):
        return json.loads(self.run_doctor("--json", *arguments, status=status, **env).stdout)["findings"]

    def links(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False)
        self.addCleanup(os.unlink, file.name)
        with file:
            file.write(text)
        return file.name

    def one(self, findings, check, severity):
        found = [f for f in findings if f["check"] == check and f["severity"] == severity]
        self.assertEqual(len(found), 1, findings)
        return found[0]

    def test_a_sound_box(self):
        findings = self.findings("--sim", "b200:4", status=0)
        self.assertIn("12 directions", self.one(findings, "peer-copy", "ok")["evidence"])
        self.assertNotIn("peer-copy", [f["check"] for f in self.findings("--sim", "b200:1", status=0)])

    def test_a_pair_whose_copies_lie(self):
        links = self.links('[[pair]]\ndevices=[0,2]\np2p="broken"\n')
        findings = self.findings("--sim", "b200:2,rubin:1", "--sim-links", links, status=2)
        bad = [f["evidence"] for f in findings if f["severity"] == "error"]
        self.assertEqual(len(bad), 2, bad)  # both directions
        for text in bad:
            self.assertIn("GPU 0", text)
            self.assertIn("GPU 2", text)
            self.assertIn("reports success", text)

    def test_links_that_are_down(self):
        links = self.links("[[device]]\nindex = 1\nlinks_down = [0, 35]\n")
        text = self.one(self.findings("--sim", "rubin:2", "--sim-links", links, status=2), "nvlink", "error")["evidence"]
        self.assertIn("GPU 1", text)
        self.assertIn("0, 35 of 36", text)

    def test_programs(self):
        apps = f"{BUILD}/tests/apps"
        self.assertIn("7.5", self.one(self.findings("--sim", "b200:1", "--", f"{apps}/vecadd", status=0), "program", "note")["evidence"])
        self.assertIn("nothing runs", self.one(self.findings("--sim", "b200:1", "--", f"{apps}/bad/sass_only", status=2), "program", "error")["evidence"])
        self.run_doctor("--sim", "b200:1", "--", "/no/such/program", status=127)

    def test_settings(self):
        findings = self.findings("--sim", "b200:1", status=1, CUDA_LAUNCH_BLOCKING="1")
        self.one(findings, "launch-blocking", "warning")

    def test_no_driver(self):
        if os.path.exists("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"):
            self.skipTest("this machine has a driver")
        findings = self.findings(status=2)
        self.assertIn("--sim", self.one(findings, "driver", "error")["fix"])

    def test_words(self):
        text = self.run_doctor("--sim", "b200:2,rubin:2", status=0, COLUMNS="80").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertRegex(text, r"0 errors, 0 warnings, \d+ notes, \d+ fine\n$")
        self.run_doctor("--sim", "b2000:1", status=125)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    unittest.main(argv=[sys.argv[0], *rest])
