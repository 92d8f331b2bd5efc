"""scripts/check_layers.py refuses what ARCHITECTURE's table forbids; shown on a small made-up repository."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/check_layers.py")


def check(files):
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "scripts"))
        shutil.copy(SCRIPT, os.path.join(root, "scripts"))
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as f:
                f.write(text)
        subprocess.run(["git", "init", "-q", root], check=True)
        subprocess.run(["git", "-C", root, "add", "."], check=True)
        done = subprocess.run([sys.executable, os.path.join(root, "scripts/check_layers.py")], capture_output=True, text=True)
        return done.returncode, done.stdout


class LayersTest(unittest.TestCase):
    def test_allowed(self):
        status, out = check({"runtime/config/parse.cpp": '#include "runtime/base/log.h"\n#include <vector>\n#include "local.h"\n',
                             "interpose/resolve.cpp": 'void* f() { return dlsym(0, "x"); }\n',
                             "interpose/slots.cpp": '// dlsym(handle) is called elsewhere\nconst char* s = "dlsym(";\n',
                             "tests/unit/t.cpp": '#include "tools/simgpu/exec/exec.h"\n'})
        self.assertEqual(status, 0, out)

    def test_forbidden(self):
        for path, line in {
            "runtime/base/log.cpp": '#include "runtime/config/options.h"',
            "runtime/graphs/g.cpp": '#include "interpose/state.h"',
            "tools/simgpu/exec/e.cpp": '  #  include "runtime/model/model.h"',
            "interpose/slots.cpp": '#include "runtime/base/log.h"',
            "interpose/names.cpp": 'void* p = dlvsym (RTLD_NEXT, "a", "b");',
            "runtime/unheard_of/x.cpp": "int x;",
        }.items():
            status, out = check({path: line + "\n"})
            self.assertEqual(status, 1, path)
            self.assertIn(path, out)

    def test_nothing_to_check_is_no_success(self):
        self.assertEqual(check({"README.md": "x"})[0], 1)


if __name__ == "__main__":
    unittest.main()
