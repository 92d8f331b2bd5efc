#!/usr/bin/env python3
"""Holds a shared object that lives in other people's processes to its promises. Exit 1 with one line per broken promise.

    check_abi.py LIBRARY [--exports MAP] [--glibc 2.17] [--needed libc.so.6]... [--constructors N] [--max-kib N] [--no-cxx]
                 [--initial-exec]

Reads the file with readelf only. What is checked whatever the options: anonymous symbol versions, lazy binding off, RELRO,
no executable stack, no text relocations, never unloaded, own symbols bound to itself.
"""
import argparse
import re
import subprocess
import sys


def readelf(*arguments):
    return subprocess.run(("readelf", "-W") + arguments, check=True, capture_output=True, text=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def map_names(path):
    with open(path, encoding="utf-8") as handle:
        text = re.sub(r"#[^\n]*", "", handle.read())
    return text, set(re.findall(r"(\w+);", text.split("local:")[0]))


def version_key(text):
    return tuple(int(part) for part in text.split("."))


class Checker:
    def __init__(self, options):
        self.options = options
        self.broken = []
        self.dynamic = readelf("-d", options.library)
        self.segments = readelf("-l", options.library)
        self.symbols = []
        for line in readelf("--dyn-syms", options.library).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[0].endswith(":") and fields[0][:-1].isdigit():
                self.symbols.append({"type": fields[3], "bind": fields[4], "undefined": fields[6] == "UND", "name": fields[7]})

    def expect(self, good, text):
        if not good:
            self.broken.append(text)

    def exports(self):
        mine = {s["name"] for s in self.symbols if not s["undefined"] and s["bind"] in ("GLOBAL", "WEAK", "UNIQUE")}
        versioned = sorted(n for n in mine if "@" in n)
        self.expect(not versioned, f"exports with a version, so an unversioned or differently versioned reference misses "
                                   f"them: {versioned[:5]}")
        self.expect("VERDEF" not in self.dynamic, "defines symbol versions; the node of its version script must have no name")
        if not self.options.exports:
            return
        text, wanted = map_names(self.options.exports)
        self.expect(re.search(r"^\s*\{", text), f"{self.options.exports}: the version node has a name")
        self.expect("local: *;" in text, f"{self.options.exports}: no 'local: *'")
        self.expect(mine == wanted, f"exports differ from the list: extra {sorted(mine - wanted)[:8]}, "
                                    f"missing {sorted(wanted - mine)[:8]}")
        self.expect(len(wanted) > 0, "the list of exports is empty")

    def floor(self):
        versions = {v for s in self.symbols if s["undefined"] for v in re.findall(r"@GLIBC_([\d.]+)", s["name"])}
        self.expect(versions, "no glibc version found: is this the right file?")
        if self.options.glibc:
            over = sorted(v for v in versions if version_key(v) > version_key(self.options.glibc))
            names = [s["name"] for s in self.symbols if s["undefined"] and any(f"@GLIBC_{v}" in s["name"] for v in over)]
            self.expect(not over, f"needs a newer glibc than {self.options.glibc}: {names}")
        foreign = [s["name"] for s in self.symbols if s["undefined"] and re.search(r"@(GLIBCXX|CXXABI|GCC)_", s["name"])]
        mangled = [s["name"] for s in self.symbols if s["undefined"] and s["name"].startswith("_Z")]
        if self.options.no_cxx:
            self.expect(not foreign and not mangled, f"needs libstdc++ or libgcc: {(foreign + mangled)[:5]}")
        self.expect(not self.options.initial_exec or not any(s["name"].startswith("__tls_get_addr") for s in self.symbols),
                    "a thread-local is not initial-exec: __tls_get_addr allocates on first use")

    def needed(self):
        needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", self.dynamic))
        if self.options.needed:
            extra = sorted(needed - set(self.options.needed))
            self.expect(not extra, f"needs libraries beyond {self.options.needed}: {extra}")

    def hardening(self):
        flags = " ".join(re.findall(r"\(FLAGS(?:_1)?\)\s+(.*)", self.dynamic))
        self.expect("NOW" in flags, "lazy binding is on")
        self.expect("NODELETE" in flags, "may be unloaded while somebody still holds its addresses")
        self.expect("SYMBOLIC" in flags or "(SYMBOLIC)" in self.dynamic, "own symbols may be bound to somebody else's")
        self.expect("TEXTREL" not in self.dynamic, "has text relocations")
        self.expect("GNU_RELRO" in self.segments, "no RELRO segment")
        stack = re.search(r"GNU_STACK\s+.*?\s([RWE ]{3})\s+0x", self.segments)
        self.expect(stack and "E" not in stack.group(1), "executable stack")
        self.expect("(RPATH)" not in self.dynamic and "(RUNPATH)" not in self.dynamic, "carries a library search path")

    def start_up(self):
        if self.options.constructors is None:
            return
        size = re.search(r"\(INIT_ARRAYSZ\)\s+(\d+)", self.dynamic)
        count = int(size.group(1)) // 8 if size else 0
        # The compiler's own frame_dummy is one of them.
        self.expect(count <= self.options.constructors + 1, f"{count - 1} constructors, {self.options.constructors} allowed")
        indirect = [s["name"] for s in self.symbols if s["type"] == "IFUNC"]
        self.expect(not indirect, f"indirect functions run code before main: {indirect}")

    def size(self):
        if self.options.max_kib:
            loaded = sum(int(m, 16) for m in re.findall(r"LOAD\s+0x\w+ 0x\w+ 0x\w+ 0x\w+ (0x\w+)", self.segments))
            self.expect(loaded <= self.options.max_kib * 1024, f"{loaded // 1024} KiB loaded, {self.options.max_kib} allowed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--exports")
    parser.add_argument("--glibc")
    parser.add_argument("--needed", action="append", default=[])
    parser.add_argument("--constructors", type=int)
    parser.add_argument("--max-kib", type=int)
    parser.add_argument("--no-cxx", action="store_true")
    parser.add_argument("--initial-exec", action="store_true", help="no thread-local may need __tls_get_addr")
    checker = Checker(parser.parse_args())
    for check in (checker.exports, checker.floor, checker.needed, checker.hardening, checker.start_up, checker.size):
        check()
    for line in checker.broken:
        print(f"{checker.options.library}: {line}", file=sys.stderr)
    sys.exit(1 if checker.broken else 0)


if __name__ == "__main__":
    main()
