#!/usr/bin/env python3
"""scripts/bench chaos [--graphs] [--seeds N]: the graphs engine's random programs (tests/graphs/random_test.py), as rows."""
import os
import subprocess
import sys

options = sys.argv[1:]
engines = {"--graphs", "--overlap", "--memory", "--placement"} & set(options)
if engines and "--graphs" not in engines:
    sys.exit(0)   # another engine's chaos
seeds = "600" if "--quick" in options else "20000"
first = "1"
for name in ("--seeds", "--first"):
    for i, option in enumerate(options):
        value = options[i + 1] if option == name and i + 1 < len(options) else option[len(name) + 1:] if option.startswith(name + "=") else None
        if value and name == "--seeds":
            seeds = value
        elif value:
            first = value
test = os.path.join(os.getcwd(), "tests/graphs/random_test.py")
sys.exit(subprocess.run([sys.executable, test, "--build", os.environ["SHUNT_BUILD"], "--rows", "--seeds", seeds, "--first", first]).returncode)
