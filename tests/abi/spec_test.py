#!/usr/bin/env python3
"""The spec and what is generated from it: counts agree, every function has a class, and the importer refuses what it does
not understand. Arguments: repository root."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import gen_api  # noqa: E402
import import_api  # noqa: E402


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as handle:
        return handle.read()


class Spec(unittest.TestCase):
    def setUp(self):
        self.cuda, self.nccl = json.loads(read("interpose/api/cuda.json")), json.loads(read("interpose/api/nccl.json"))
        self.slots, _ = gen_api.build_slots(self.cuda, self.nccl)

    def test_counts_agree(self):
        symbols = [s.symbol for s in self.slots]
        self.assertEqual(len(symbols), len(set(symbols)))
        exports = set(re.findall(r"^    (\w+);", read("interpose/generated/exports.map"), flags=re.M))
        self.assertEqual(exports, set(symbols) | set(gen_api.SPECIALS))
        stubs = re.findall(r"SLOT\((\w+), (\d+)\)", read("interpose/generated/stubs.S"))
        self.assertEqual(stubs, [(s, str(i)) for i, s in enumerate(symbols)])
        enum = re.findall(r"SHUNT_SLOT_(\w+) = (\d+),", read("runtime/link/generated/slots.h"))
        self.assertEqual(enum[:-1], [(s, str(i)) for i, s in enumerate(symbols)])
        self.assertEqual(enum[-1], ("COUNT", str(len(symbols))))
        info = re.findall(r"^SHUNT_SLOT_INFO\((\w+),", read("runtime/link/generated/slot_info.inc"), flags=re.M)
        self.assertEqual(info, symbols)

    def test_every_function_has_a_known_class(self):
        for function in self.cuda["functions"] + self.nccl["functions"]:
            self.assertIn(function["class"], import_api.CLASSES, function["name"])

    def test_versions_and_names_of_the_driver(self):
        for function in self.cuda["functions"]:
            numbers = [v["version"] for v in function["versions"]]
            self.assertEqual(numbers, sorted(set(numbers)), function["name"])
            self.assertEqual(function["versions"][0]["symbol"], function["name"])
            for version in function["versions"]:
                self.assertTrue(2000 <= version["version"] < 65536, version)
                for parameter in version["params"]:
                    self.assertIn(parameter["dir"], ("in", "out", "inout"))
                    if "length" in parameter:
                        self.assertIn(parameter["length"], [p["name"] for p in version["params"]])
                if "stream_variant" in version:
                    self.assertTrue(version["stream_variant"]["symbol"].startswith(version["symbol"] + "_pt"))

    def test_nothing_that_waits_or_takes_a_stream_is_harmless(self):
        for function in self.cuda["functions"]:
            if function["class"] == "harmless" and not function["name"].endswith("GetParams"):
                self.assertIsNone(re.search(r"Synchronize|Launch|Memcpy|Memset|Free|Destroy", function["name"]), function["name"])
                self.assertFalse(any("stream_variant" in v and not re.match(r"cuStreamGet", function["name"])
                                     for v in function["versions"]), function["name"])


HEADER = """#define CUDA_VERSION 13000
typedef struct CUstream_st *CUstream;
CUresult CUDAAPI %s(CUstream hStream);
"""
TYPEDEF = "typedef CUresult (CUDAAPI *PFN_%s_v%d)(CUstream hStream);\n"


class Importer(unittest.TestCase):
    def run_importer(self, header, typedefs):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("cuda.h", header), ("cudaTypedefs.h", typedefs), ("cudaProfiler.h", ""),
                               ("cudaProfilerTypedefs.h", "")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as handle:
                    handle.write(text)
            return import_api.import_cuda(folder)

    def test_known_function(self):
        spec = self.run_importer(HEADER % "cuStreamSynchronize", TYPEDEF % ("cuStreamSynchronize", 2000))
        self.assertEqual(spec["functions"][0]["class"], "sync")
        self.assertEqual(spec["functions"][0]["versions"][0]["params"],
                         [{"type": "CUstream", "name": "hStream", "dir": "in", "handle": "stream"}])

    def test_function_without_a_class_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "cuBrandNew: no class"):
            self.run_importer(HEADER % "cuBrandNew", TYPEDEF % ("cuBrandNew", 14000))

    def test_symbol_without_a_version_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "without a typedef"):
            self.run_importer(HEADER % "cuStreamSynchronize", "")

    def test_more_versions_than_symbols_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "do not pair"):
            self.run_importer(HEADER % "cuStreamSynchronize",
                              TYPEDEF % ("cuStreamSynchronize", 2000) + TYPEDEF % ("cuStreamSynchronize", 13000))

    def test_dropped_functions_stay(self):
        spec = self.run_importer(HEADER % "cuStreamSynchronize", TYPEDEF % ("cuStreamSynchronize", 2000))
        older = json.loads(json.dumps(spec))
        older["functions"][0]["name"] = "cuStreamOld"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as handle:
            handle.write(import_api.dump(older))
            handle.flush()
            kept = import_api.keep_dropped(spec, handle.name)
        self.assertEqual([f["name"] for f in kept["functions"]], ["cuStreamOld", "cuStreamSynchronize"])
        self.assertTrue(kept["functions"][0]["dropped"])


class Generated(unittest.TestCase):
    def test_regenerating_changes_nothing(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "gen_api.py"), "--check"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
