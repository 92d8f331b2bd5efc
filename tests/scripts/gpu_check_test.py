"""scripts/gpu-check without a GPU: what it says where there is no driver, its whole way with simgpu as the machine's driver, and
that a computation that differs under the preload is found."""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")
sys.path.insert(0, SCRIPTS)


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_check", os.path.join(SCRIPTS, "gpu-check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        self.build = os.environ["SHUNT_BUILD"]
        self.preload = os.path.join(self.build, "lib/libshunt.so")

    def bits(self, script):
        return load().library_bits(["sh", "-c", script], self.preload)

    def test_equal_bits(self):
        equal, lines = self.bits("echo matmul float32 abcd; echo convolution 1234")
        self.assertTrue(equal)
        self.assertIn("| matmul float32 | abcd | abcd | yes |", lines)

    def test_other_bits_are_found(self):
        equal, lines = self.bits('echo first same; [ -n "$LD_PRELOAD" ] && echo second 2 || echo second 1')
        self.assertFalse(equal)
        self.assertIn("| first | same | same | yes |", lines)
        self.assertIn("| second | 1 | 2 | **no** |", lines)

    def test_a_crash_under_shunt_is_found(self):
        equal, lines = self.bits('echo a 1; [ -z "$LD_PRELOAD" ] || { echo why >&2; exit 3; }')
        self.assertFalse(equal)
        self.assertIn("Under shunt it ended with status 3:", lines)

    def test_absent_library_says_so(self):
        self.assertEqual(self.bits("echo PyTorch is not installed; exit 77"), (True, ["Not compared: PyTorch is not installed."]))

    def test_without_a_driver(self):
        env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        if subprocess.run([sys.executable, os.path.join(SCRIPTS, "has_driver.py")], env=env).returncode == 0:
            self.skipTest("this machine has a driver")
        done = subprocess.run([os.path.join(SCRIPTS, "gpu-check")], env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 77)
        self.assertIn("nothing was checked", done.stdout)

    # simgpu as the machine's driver; no nvidia-smi is needed, as in many containers.
    def test_devices_come_from_the_driver(self):
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(self.build, "lib/simgpu"), SIMGPU_SPEC="b200:1,rubin:1", PATH="/usr/bin:/bin")
        done = subprocess.run([sys.executable, "-c", "import has_driver; print(has_driver.answer()); print(has_driver.devices())"], env=env, cwd=SCRIPTS,
                              capture_output=True, text=True)
        self.assertIn("(True, '2 devices')", done.stdout, done.stderr)
        self.assertRegex(done.stdout, r"NVIDIA B200, 1\d\d GiB, driver for CUDA 13\.0")

    def test_programs_are_compared(self):
        os.environ.update(LD_LIBRARY_PATH=os.path.join(self.build, "lib/simgpu"))
        try:
            ok, rows, log = load().apps(self.build, "graphs", False)
        finally:
            del os.environ["LD_LIBRARY_PATH"]
        self.assertTrue(ok, log)
        self.assertEqual(len(rows), 18, log)


if __name__ == "__main__":
    unittest.main()
