"""scripts/bench: the JSON contract, and that a bench with a missing row, a bad line or a failed program is a failure."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/bench")


def row(name, **more):
    return json.dumps({"name": name, "value": 1.5, "unit": "ms", "runs": 5, "min": 1, "max": 2, "better": "lower", **more})


ROWS = [row(n) for n in ("doctor_s", "topo_s", "calibrate_rate_error_pct", "endpoint_p99_ms")]


def bench(lines, *arguments, status=0):
    with tempfile.TemporaryDirectory() as build:
        folder = os.path.join(build, "tests/bench/ops")
        os.makedirs(folder)
        program = os.path.join(folder, "fake_bench")
        with open(program, "w") as f:
            f.write("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + f"\nEND\necho \"$@\" >&2\nexit {status}\n")
        os.chmod(program, 0o755)
        return subprocess.run([sys.executable, SCRIPT, "ops", "--no-build", "--build-dir", build, *arguments],
                              capture_output=True, text=True)


class BenchTest(unittest.TestCase):
    def test_json(self):
        done = bench(ROWS, "--json", "--quick", "--seeds", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["schema"], result["bench"], len(result["rows"])), (1, "ops", 4))
        self.assertEqual(result["rows"][0]["value"], 1.5)
        self.assertIn("--quick --seeds 3", done.stderr)

    def test_table_and_budget(self):
        done = bench(ROWS[1:] + [row("doctor_s", budget=1)])
        self.assertEqual(done.returncode, 0)
        self.assertIn("MISSED", done.stdout)
        self.assertNotIn("MISSED", bench(ROWS[1:] + [row("doctor_s", budget=2)]).stdout)

    def test_failures(self):
        for lines, status, word in ((ROWS[:-1], 0, "endpoint_p99_ms"), (ROWS + ["hello"], 0, "hello"), (ROWS, 3, "status 3"),
                                    (ROWS + ['{"name": "x"}'], 0, "field")):
            done = bench(lines, status=status)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)

    def test_unknown_name(self):
        done = subprocess.run([sys.executable, SCRIPT, "nonsense", "--no-build"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("intercept", done.stderr)


if __name__ == "__main__":
    unittest.main()
