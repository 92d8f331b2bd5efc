#!/usr/bin/env python3
"""Builds tests/fuzz/fuzz_trace.cpp with clang and runs it for some seconds from named seeds, which are made from the golden file.
Usage: fuzz_short.py CLANG++ SECONDS"""
import os
import struct
import subprocess
import sys
import tempfile

HEADER, CHUNK = 4096, 64
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
clang, seconds = sys.argv[1:3]
if not clang or clang.endswith("-NOTFOUND"):
    print("skipped: no clang++ on this machine (Debian: apt install clang); libFuzzer comes with it only")
    sys.exit(77)
with tempfile.TemporaryDirectory() as top:  # clang alone is not enough: its run-time library is a package of its own
    probe = os.path.join(top, "probe.cpp")
    with open(probe, "w") as f:
        f.write('extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }')
    if subprocess.run([clang, "-fsanitize=fuzzer,address,undefined", probe, "-o", os.path.join(top, "probe")], capture_output=True).returncode:
        print("skipped: clang++ has no libFuzzer here (Debian: apt install libclang-rt-14-dev); trace_fuzz_loop runs without")
        sys.exit(77)
with open(os.path.join(ROOT, "tests/trace/golden/version_1.shnt"), "rb") as golden:
    good = golden.read()


def patched(at, value, form="<I"):
    out = bytearray(good)
    struct.pack_into(form, out, at, value)
    return bytes(out)


seeds = {
    "good": good,
    "empty": b"",
    "header_only": good[:HEADER],
    "cut_in_a_record": good[:HEADER + CHUNK + 40],
    "foreign_endian": patched(12, 0x04030201),
    "future_version": patched(8, 99),
    "record_size_zero": patched(HEADER + CHUNK + 2, 0, "<H"),
    "record_size_huge": patched(HEADER + CHUNK + 2, 0xFFF0, "<H"),
    "committed_past_the_chunk": patched(HEADER + 8, 0xFFFFFFFF),
    "string_longer_than_its_record": patched(HEADER + CHUNK + 4, 0xFFFFFFFF),
    "bad_chunk_magic": patched(HEADER, 0x12345678),
}
with tempfile.TemporaryDirectory() as top:
    fuzzer, folder = os.path.join(top, "fuzz_trace"), os.path.join(top, "seeds")
    os.mkdir(folder)
    subprocess.run([clang, "-std=c++20", "-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined", "-I" + ROOT,
                    os.path.join(ROOT, "tests/fuzz/fuzz_trace.cpp"), os.path.join(ROOT, "runtime/trace/reader.cpp"), "-o", fuzzer], check=True)
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    work = os.path.join(top, "found")
    os.mkdir(work)
    run = subprocess.run([fuzzer, work, folder, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=600000", "-print_final_stats=1",
                          "-seed=1", f"-artifact_prefix={work}/"], stderr=subprocess.PIPE, text=True)
    print("\n".join(line for line in run.stderr.splitlines() if "stat::" in line or "ERROR" in line or "SUMMARY" in line))
    executed = [int(line.split()[-1]) for line in run.stderr.splitlines() if "number_of_executed_units" in line]
    if run.returncode or not executed or executed[0] < len(seeds):
        sys.exit(f"fuzz_trace failed with {run.returncode}:\n{run.stderr[-3000:]}")
