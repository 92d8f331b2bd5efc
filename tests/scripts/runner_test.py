"""tests/apps/run_apps.py finds what it is there to find: a made-up build folder with shell programs and a shunt that misbehaves
for some of them."""
import os
import subprocess
import sys
import tempfile
import unittest

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps/run_apps.py")

# `shunt run --sim SPEC -- program`: what it spoils depends on the program's name.
SHUNT = """#!/bin/sh
program=$5
case $program in
  */silent) exit 0 ;;
  */status) $program; exit 9 ;;
  */noisy) echo "not shunt's own line" >&2; exec $program ;;
  */hangs_with) exec sleep 30 ;;
  */chatty) echo "[shunt] placed on device 0" >&2; exec $program ;;
esac
exec $program
"""


class RunnerTest(unittest.TestCase):
    def run_mode(self, programs, *arguments, missing=()):
        with tempfile.TemporaryDirectory() as build:
            os.makedirs(os.path.join(build, "tests/apps"))
            os.makedirs(os.path.join(build, "bin"))
            with open(os.path.join(build, "tests/apps/programs.txt"), "w") as f:
                f.write("\n".join(list(programs) + list(missing)))
            files = {f"tests/apps/{name}": "#!/bin/sh\n" + text for name, text in programs.items()}
            files["bin/shunt"] = SHUNT
            for path, text in files.items():
                with open(os.path.join(build, path), "w") as f:
                    f.write(text)
                os.chmod(os.path.join(build, path), 0o755)
            done = subprocess.run([sys.executable, RUNNER, "--build", build, "--timeout", "2", *arguments],
                                  capture_output=True, text=True)
            failed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith("FAILED")}
            return done.returncode, failed, done.stdout

    def test_same_everywhere_passes(self):
        status, failed, out = self.run_mode({"good": "echo result; exit 0", "chatty": "echo words"}, "--mode", "b200")
        self.assertEqual((status, failed), (0, set()), out)
        self.assertIn("2 passed, 0 failed", out)

    def test_each_difference_is_found(self):
        programs = {name: "echo result" for name in ("silent", "status", "noisy", "hangs_with", "good")}
        status, failed, out = self.run_mode(programs, "--mode", "rubin")
        self.assertEqual((status, failed), (1, {"silent", "status", "noisy", "hangs_with"}), out)

    def test_program_that_fails_by_itself(self):
        status, failed, out = self.run_mode({"broken": "echo WRONG; exit 1", "good": "exit 0"}, "--mode", "plain")
        self.assertEqual((status, failed), (1, {"broken"}), out)

    def test_program_not_built(self):
        status, failed, _ = self.run_mode({"good": "exit 0"}, "--mode", "plain", missing=["absent"])
        self.assertEqual((status, failed), (1, {"absent"}))

    def test_output_that_depends_on_the_box(self):
        program = 'echo "$SIMGPU_SPEC"'
        status, failed, _ = self.run_mode({"curious": program}, "--mode", "mixed")
        self.assertEqual((status, failed), (1, {"curious"}))


if __name__ == "__main__":
    unittest.main()
