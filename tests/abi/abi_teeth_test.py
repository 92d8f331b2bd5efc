#!/usr/bin/env python3
"""check_abi.py must notice each broken promise: small libraries that break one each. Arguments: compiler, check_abi.py."""
import os
import subprocess
import sys
import tempfile

COMPILER, CHECK = sys.argv[1:3]
GOOD = ["-shared", "-fPIC", "-O1", "-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,noexecstack"]
MAP = "{\n  global:\n    f;\n  local: *;\n};\n"
CODE = "#include <string.h>\nint f(const char* s) { return (int)strlen(s); }\nint hidden(void) { return 1; }\n"
CASES = {
    # name: (source, link options, map, what the message must say; None: all good)
    "good": (CODE, GOOD, MAP, None),
    "named node": (CODE, GOOD, "V1 " + MAP, "version"),
    "extra export": (CODE, GOOD, MAP.replace("f;", "f; hidden;"), "extra"),
    "missing export": (CODE, GOOD, MAP.replace("f;", "f; g;"), "missing"),
    "new glibc": ("#include <pthread.h>\nint f(void) { return pthread_create(0, 0, 0, 0); }\n", GOOD, MAP, "newer glibc"),
    "two constructors": (CODE + "static volatile int v;\n__attribute__((constructor)) static void a(void) { v = 1; }\n"
                                "__attribute__((constructor)) static void b(void) { v = 2; }\n", GOOD, MAP, "constructors"),
    "thread local": (CODE + "static __thread int t;\nint* g(void) { return &t; }\nint* (*keep)(void) = g;\n", GOOD, MAP,
                     "initial-exec"),
    "lazy": (CODE, [o.replace("now", "lazy") for o in GOOD], MAP, "lazy binding"),
    "unloadable": (CODE, [o for o in GOOD if "nodelete" not in o], MAP, "unloaded"),
    "not symbolic": (CODE, [o for o in GOOD if "symbolic" not in o], MAP, "somebody else"),
    "executable stack": (CODE, [o.replace("noexecstack", "execstack") for o in GOOD], MAP, "executable stack"),
    "other library": (CODE + "double sqrt(double);\ndouble g(double x) { return sqrt(x) + 1; }\ndouble (*keep)(double) = g;\n",
                      GOOD + ["-Wl,--no-as-needed", "-lm"], MAP, "needs libraries"),
    "run path": (CODE, GOOD + ["-Wl,-rpath,/tmp"], MAP, "search path"),
    "too big": (CODE + "static char big[1 << 20] = {1};\nchar* g(void) { return big; }\nchar* (*keep)(void) = g;\n", GOOD, MAP,
                "KiB"),
}

failures = 0
with tempfile.TemporaryDirectory() as folder:
    for name, (source, options, script, message) in CASES.items():
        paths = {kind: os.path.join(folder, name.replace(" ", "_") + "." + kind) for kind in ("c", "map", "so")}
        good_map = os.path.join(folder, "list.map")
        for path, text in ((paths["c"], source), (paths["map"], script), (good_map, MAP)):
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)
        subprocess.run([COMPILER, paths["c"], "-o", paths["so"], "-Wl,--version-script=" + paths["map"]] + options, check=True)
        wanted = paths["map"] if name == "missing export" else good_map
        checked = subprocess.run([sys.executable, CHECK, paths["so"], "--exports", wanted, "--glibc", "2.17", "--needed",
                                  "libc.so.6", "--constructors", "1", "--max-kib", "256", "--no-cxx", "--initial-exec"], capture_output=True,
                                 text=True)
        right = checked.returncode == 0 if message is None else checked.returncode == 1 and message in checked.stderr
        if not right:
            failures += 1
            print(f"FAIL {name}: status {checked.returncode}\n{checked.stderr}")
print(f"{len(CASES) - failures} of {len(CASES)} cases right")
sys.exit(1 if failures else 0)
