#!/usr/bin/env python3
"""tests/apps/folded compares what the compiler folds with what the device computes: it has to fold, or the comparison says
nothing.

  folded_test.py --build build
"""
import argparse
import os
import re
import subprocess
import sys


def leftovers(ptx):
    """Operation -> instructions left in its folded kernel besides moves and stores."""
    found = {}
    for part in re.split(r"(?=\.entry )", ptx)[1:]:
        kernel = re.match(r"\.entry \S*folded_(?:float|double|int)I\S*?\d([FDI]\d+)E", part)
        if not kernel:
            continue
        body = part[part.index("{") : part.index("\n}")]
        words = [m[1] for m in re.finditer(r"^\s+(?:@\S+\s+)?([a-z][\w.]*)", body, re.M)]
        found[kernel[1]] = [w for w in words if not w.startswith(("mov", "st.global", "ld.param", "cvta", "ret"))]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    with open(os.path.join(build, "tests/apps/folded.ptx"), encoding="utf-8") as f:
        left = leftovers(f.read())
    folded = sorted(name for name, words in left.items() if len(words) <= 4)  # infinities are made by a division
    print(f"{len(folded)} of {len(left)} operations are folded")
    if len(folded) < 40:
        return f"the compiler folds too little: {left}"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_"))}
    env.update(SIMGPU_SPEC="b200:1", LD_LIBRARY_PATH=os.path.join(build, "lib/simgpu"))
    return subprocess.run([os.path.join(build, "tests/apps/folded")], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
