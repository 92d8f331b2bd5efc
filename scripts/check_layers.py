#!/usr/bin/env python3
"""Checks who includes whom: ARCHITECTURE's table of folders, as code. Also that interpose/ looks symbols up in one place only.

A folder may always include itself. Headers of the system and of packages are not looked at.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Folder: what it may include besides itself. The longest matching folder decides.
RUNTIME_ALL = ["runtime"]
# What an engine sees of the call path: the link it implements, the real driver, and how to drain. Single headers, because the rest
# of exec/ knows every engine and no engine may know exec/.
CALL_PATH = ["runtime/exec/link.h", "runtime/exec/driver.h", "runtime/exec/chain.h", "runtime/exec/bypass.h", "runtime/config", "runtime/trace"]
LAYERS = {
    "interpose": ["runtime/link"],
    "runtime/link": [],
    "runtime/base": [],
    "runtime/config": ["runtime/base"],
    "runtime/model": ["runtime/base", "runtime/link"],
    "runtime/binary": ["runtime/base"],
    "runtime/ptx": ["runtime/base"],
    "runtime/profiles": ["runtime/base"],
    "runtime/ledger": ["runtime/base"],
    "runtime/monitor": ["runtime/base", "runtime/model", "runtime/profiles"],
    "runtime/plan": ["runtime/base"],
    "runtime/placement": ["runtime/base", "runtime/config", "runtime/binary", "runtime/model", "runtime/monitor", "runtime/ledger", "runtime/plan",
                          "runtime/profiles"] + CALL_PATH,
    "runtime/memory": ["runtime/base", "runtime/model", "runtime/monitor", "runtime/ledger"] + CALL_PATH,
    "runtime/graphs": ["runtime/base", "runtime/model"] + CALL_PATH,
    "runtime/overlap": ["runtime/base", "runtime/model", "runtime/ptx", "runtime/binary"] + CALL_PATH,
    "runtime/precision": ["runtime/base", "runtime/config", "runtime/model", "runtime/profiles"] + CALL_PATH,
    "runtime/trace": ["runtime/base", "runtime/model"],
    "runtime/exec": RUNTIME_ALL,
    "kernels": [],
    "tools/shunt": RUNTIME_ALL + ["tools/simgpu/box"],
    "tools/simgpu": ["runtime/ptx", "runtime/binary", "runtime/base", "runtime/profiles"],
    "tests": ["interpose", "runtime", "kernels", "tools", "tests"],
}
TOPS = ("interpose/", "runtime/", "kernels/", "tools/", "tests/")
SOURCE = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".S", ".inc", ".def")
LOOK_UP = re.compile(r"\bdlv?sym\s*\(")


def layer_of(path):
    best = ""
    for folder in LAYERS:
        if path.startswith(folder + "/") and len(folder) > len(best):
            best = folder
    return best


def strip_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//[^\n]*", "", text)


def allowed(layer, included):
    return any(included == entry or included.startswith(entry + "/") for entry in [layer] + LAYERS[layer])


def main():
    files = subprocess.check_output(["git", "-C", ROOT, "ls-files"], text=True).split("\n")
    problems = []
    checked = 0
    for path in files:
        if not path.startswith(TOPS) or not path.endswith(SOURCE) or not os.path.exists(os.path.join(ROOT, path)):
            continue
        checked += 1
        layer = layer_of(path)
        if not layer:
            problems.append(f"{path}: in no folder of ARCHITECTURE's table (add it to scripts/check_layers.py and there)")
            continue
        with open(os.path.join(ROOT, path), errors="replace") as f:
            text = f.read()
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if m and m.group(1).startswith(TOPS) and not allowed(layer, m.group(1)):
                problems.append(f"{path}:{number}: {layer} may not include {m.group(1)}")
        if layer == "interpose" and os.path.basename(path) != "resolve.cpp":
            for number, line in enumerate(strip_comments(text).splitlines(), 1):
                if LOOK_UP.search(line):
                    problems.append(f"{path}:{number}: only interpose/resolve.cpp may call dlsym or dlvsym")
    for problem in problems:
        print(problem)
    print(f"{checked} files, {len(problems)} problems")
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
