#!/usr/bin/env python3
"""A program that needs what simgpu lacks is told exactly what that is, at the default verbosity: the function, the
instruction and its line, the image.

  missing_test.py --build build
"""
import argparse
import ctypes
import os
import subprocess
import sys

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
BODY = ".visible .entry k() {{\n{0}\n  ret;\n}}\n"
KERNELS = {  # name: (text, code, words of the message)
    "wgmma": (HEAD.replace("sm_100a", "sm_90a") + BODY.format("  wgmma.fence.sync.aligned;"), 218, ["wgmma", "line 5"]),
    "tcgen05": (HEAD + BODY.format("  tcgen05.fence::before_thread_sync;"), 218, ["tcgen05", "line 5"]),
    "unknown": (HEAD + BODY.format("  .reg .b32 %r<3>;\n  frobnicate.b32 %r1, %r2;"), 218, ["frobnicate", "line 6"]),
    "machine code": (b"\x7fELF\x02\x01\x01" + bytes(57), 209, ["machine-code", "PTX"]),
    "newer device": (HEAD.replace("sm_100a", "sm_121") + BODY.format(""), 209, ["12.1", "10.0"]),
    "newer PTX": (HEAD.replace("9.0", "9.9") + BODY.format(""), 222, ["9.9"]),
    "dynamic parallelism": (HEAD + ".extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 a, .param .b64 b);\n" + BODY.format(
        "  { .param .b64 a; .param .b64 b; .param .b32 r;\n  call.uni (r), cudaLaunchDeviceV2, (a, b); }"), 218, ["cudaLaunchDeviceV2", "dynamic parallelism"]),
}


def child(name):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, module, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
    if name == "function":
        for _ in range(3):
            code = cuda.cuGreenCtxDestroy(None)
    else:
        text = KERNELS[name][0]
        code = cuda.cuModuleLoadData(ctypes.byref(module), text.encode() + b"\0" if isinstance(text, str) else text)
    print(code)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build")
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_"))}
    env.update(SIMGPU_SPEC="b200:1", LD_LIBRARY_PATH=os.path.join(os.path.abspath(options.build), "lib/simgpu"))
    failed = 0
    for name, (_, code, words) in {"function": (None, 801, ["cuGreenCtxDestroy is not implemented"]), **KERNELS}.items():
        done = subprocess.run([sys.executable, __file__, "--child", name], env=env, capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.startswith("simgpu: ")]
        got = int(done.stdout) if done.stdout.strip().isdigit() else None
        wrong = [w for w in words if not any(w in line for line in said)]
        if got is None or got == 0 or (code and got != code) or wrong or (name == "function" and len(said) != 1):
            failed += 1
            print(f"{name}: code {got} (expected {code}), message lacks {wrong}: {done.stderr or 'nothing said'}")
        else:
            print(f"{name}: {got} {said[-1]}")
    return f"{failed} failed" if failed else 0


if __name__ == "__main__":
    sys.exit(main())
