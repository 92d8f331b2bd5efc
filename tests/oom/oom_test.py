#!/usr/bin/env python3
"""The memory engine from outside: a program that dies of an exhausted device finishes with --oom=spill, and every failed or
unwanted ladder leaves the program's own error and nothing else. Usage: oom_test.py --build DIR"""
import argparse
import json
import os
import subprocess
import tempfile
import unittest

BUILD = ""


def run(oom, mem="96MiB", blocks=16, trace=None, env=None):
    command = [os.path.join(BUILD, "bin/shunt"), "run", "-q", "--sim", f"b200:1@mem={mem}", "--oom", oom]
    if trace:
        command += ["-o", trace]
    command += ["--", os.path.join(BUILD, "tests/apps/growing"), str(blocks)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_")) and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    return subprocess.run(command, capture_output=True, text=True, env={**clean, **(env or {})}, timeout=120)


def decisions(trace):
    done = subprocess.run([os.path.join(BUILD, "bin/shunt"), "trace", "summary", trace, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["features"].get("oom-retry", {"decisions": 0, "reasons": {}})


class Oom(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.trace = self.named("run")

    def named(self, name):
        return os.path.join(self.folder.name, f"{name}.shunt")

    def tearDown(self):
        self.folder.cleanup()

    def test_without_spill_the_program_keeps_its_own_error(self):
        plain = run("off")
        self.assertEqual(plain.returncode, 1)
        self.assertIn("cudaErrorMemoryAllocation", plain.stdout)
        for mode in ("shadow", "retry", "auto"):   # auto: one block over PCIe is above 1 % of this small device
            done = run(mode, trace=self.named(mode))
            self.assertEqual((done.returncode, done.stdout), (plain.returncode, plain.stdout), mode)

    def test_spilling_finishes_with_equal_results(self):
        enough = run("off", mem="1GiB")
        self.assertEqual(enough.returncode, 0, enough.stdout)
        spilled = run("spill", trace=self.trace)
        self.assertEqual((spilled.returncode, spilled.stdout), (enough.returncode, enough.stdout))
        reasons = decisions(self.trace)["reasons"]
        self.assertEqual(sum(n for r, n in reasons.items() if r.startswith("spilled")), 16 - 11, reasons)

    def test_caps_hold(self):
        done = run("spill", env={"SHUNT_SPILL_MAX": "16MiB"}, trace=self.trace)
        self.assertEqual(done.returncode, 1)
        reasons = decisions(self.trace)["reasons"]
        self.assertEqual(reasons.get("spill-cap"), 1, reasons)
        self.assertEqual(sum(n for r, n in reasons.items() if r.startswith("spilled")), 2, reasons)

    def test_a_passing_failure_is_retried(self):
        plain = run("off", mem="1GiB", env={"SIMGPU_FAULTS": "alloc@5"})
        self.assertIn("cudaErrorMemoryAllocation", plain.stdout)
        for nth in range(1, 18):
            done = run("retry", mem="1GiB", env={"SIMGPU_FAULTS": f"alloc@{nth}"}, trace=self.named(nth))
            self.assertEqual(done.returncode, 0, f"alloc@{nth}: {done.stdout}{done.stderr}")
            self.assertEqual(decisions(self.named(nth))["reasons"].get("retried"), 1)

    def test_a_client_that_heals_itself_is_told_at_once(self):
        for client, failures in (("pytorch", 1), ("unknown", 0)):
            done = run("spill", env={"SHUNT_OOM_CLIENT": client}, trace=self.named(client))
            reasons = decisions(self.named(client))["reasons"]
            self.assertEqual(reasons.get("self-healing-client", 0), failures, reasons)
            self.assertEqual(done.returncode, 1 if failures else 0)   # this program does not try again

    def test_every_failing_step_of_a_spill_is_undone(self):
        """Each driver function of the ladder is missing in turn: the next form is taken, or the program's own error stays."""
        enough = run("off", mem="1GiB").stdout
        plain = run("off").stdout
        for name in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve", "cuMemAllocManaged", "cuMemAdvise_v2"):
            done = run("spill", env={"SIMGPU_FAULTS": f"driver_missing:{name}"})
            self.assertIn((done.returncode, done.stdout), [(0, enough), (1, plain)], f"{name}: {done.stderr}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    known, rest = parser.parse_known_args()
    BUILD = os.path.abspath(known.build)
    unittest.main(argv=[__file__, *rest])
