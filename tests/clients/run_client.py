#!/usr/bin/env python3
"""Runs one client from PyPI on simgpu: plainly, and under LD_PRELOAD=libshunt.so. Both must pass, with the same output.

  run_client.py --build build SCRIPT.py [NAME=VALUE ...]

Its interpreter is the one of .venv, where `scripts/setup --tests` puts the packages; where they could not be installed the
test is skipped and says so (exit 77).
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDS = {"cuda_python": "cuda.bindings.nvrtc", "numba_kernels": "numba_cuda", "tinygrad_trains": "tinygrad", "pycuda_kernels": "pycuda.driver"}


def without_nvjitlink(folder):
    """numba links by nvJitLink, to machine code that simgpu does not run, where it finds that library, also one that merely
    lies on the machine. An empty one in front of it makes it use the driver's linker."""
    source = os.path.join(folder, "empty.c")
    with open(source, "w") as f:
        f.write("int shunt_test_empty;\n")
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c", source, "-Wl,-soname,libnvJitLink.so.13", "-o", os.path.join(folder, "libnvJitLink.so.13")], check=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--toolkit", required=True, help="for nvcc, which PyCUDA runs")
    parser.add_argument("script")
    parser.add_argument("settings", nargs="*")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    python = os.environ.get("SHUNT_TEST_PYTHON", str(ROOT / ".venv/bin/python"))
    script = ROOT / "tests/clients" / options.script
    module = NEEDS[script.stem]
    if not os.path.exists(python) or subprocess.run([python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"],
                                                    stderr=subprocess.DEVNULL).returncode:
        print(f"skipped: {module} is not installed in {python} (scripts/setup --tests installs it)")
        return 77
    outputs = []
    with tempfile.TemporaryDirectory() as folder:
        for preload in (False, True):
            env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_", "LD_"))}
            env.update(setting.split("=", 1) for setting in options.settings)
            env["PATH"] = f"{options.toolkit}/bin:{env['PATH']}"
            env.update(SIMGPU_SPEC="b200:1", LD_LIBRARY_PATH=f"{without_nvjitlink(folder)}:{build}/lib/simgpu", PYTHONDONTWRITEBYTECODE="1",
                       NUMBA_CACHE_DIR=folder, XDG_CACHE_HOME=folder, CACHELEVEL="0", HOME=folder)
            if preload:
                env["LD_PRELOAD"] = f"{build}/lib/libshunt.so"
            done = subprocess.run([python, str(script)], env=env, capture_output=True, text=True, timeout=240)
            if done.returncode or not done.stdout.endswith("PASSED\n"):
                print(done.stdout, done.stderr, sep="\n")
                return f"{script.name} failed {'under shunt' if preload else 'on simgpu'} (exit {done.returncode})"
            outputs.append(done.stdout)
    print(outputs[0], end="")
    if outputs[0] != outputs[1]:
        print(outputs[1])
        return "the output under shunt differs"
    return 0


if __name__ == "__main__":
    sys.exit(main())
