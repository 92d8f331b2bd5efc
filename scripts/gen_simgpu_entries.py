#!/usr/bin/env python3
"""Generates the tables of simgpu's libcuda from the toolkit's public headers.

  tools/simgpu/driver/generated/entries.inc   cuGetProcAddress: name, version, per-thread flag, exported symbol
  tools/simgpu/driver/generated/stubs.cpp     every declared function: weak "not supported", and _ptsz/_ptds forwarders
  tools/simgpu/driver/generated/libcuda.map   export list
  docs/driver.md                              one line per function with its status

Run without arguments from the repository root; --check fails when a committed file differs. Needs a C preprocessor.
"""
import argparse
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DRIVER = os.path.join(ROOT, "tools/simgpu/driver")


def toolkit():
    for candidate in (os.path.join(ROOT, ".deps/cuda"), os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        if candidate and os.path.exists(os.path.join(candidate, "include/cuda.h")):
            return os.path.join(candidate, "include")
    sys.exit("gen_simgpu_entries: no toolkit headers found")


def preprocess(include, text):
    out = subprocess.run(["cpp", "-P", "-I", include, "-x", "c", "-"], input=text, capture_output=True, text=True, check=True)
    return out.stdout


def split_parameters(text):
    parts, depth, current = [], 0, ""
    for ch in text:
        if ch == "," and depth == 0:
            parts.append(current.strip())
            current = ""
            continue
        depth += ch in "([" 
        depth -= ch in ")]"
        current += ch
    if current.strip():
        parts.append(current.strip())
    return [] if parts == ["void"] else parts


def parameter_name(parameter, index):
    m = re.match(r".*\(\s*\*\s*(\w+)\s*\)", parameter)
    if m:
        return m.group(1)
    m = re.search(r"(\w+)\s*(\[\w*\])?$", parameter)
    return m.group(1)


def functions(include):
    text = preprocess(include, "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n")
    text = re.sub(r"__attribute__\(\([^)]*\)\)", "", text)
    result = {}
    for m in re.finditer(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{}]*)\)\s*;", text, re.S):
        name = m.group(1)
        params = [re.sub(r"\s+", " ", p) for p in split_parameters(m.group(2))]
        result.setdefault(name, params)
    return result


def typedefs(include):
    versions = {}
    for header in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"):
        with open(os.path.join(include, header)) as f:
            text = f.read()
        for m in re.finditer(r"\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)\((.*)\);", text):
            versions.setdefault(m.group(1), {})[(int(m.group(2)), m.group(3) or "")] = m.group(4)
    return versions


def order(symbol, base):
    tail = symbol[len(base):]
    return int(tail[2:]) if tail.startswith("_v") else 1


def entries(include, funcs):
    """(name, version, suffix, symbol). The k-th oldest typedef of a name is its k-th oldest symbol."""
    rows = []
    macro = {"cuGraphInstantiate": "cuGraphInstantiateWithFlags"}
    for name, forms in sorted(typedefs(include).items()):
        plain = sorted(v for v, s in forms if not s)
        symbols = sorted((f for f in funcs if re.fullmatch(re.escape(name) + r"(_v\d+)?", f)), key=lambda f: order(f, name))
        if name in macro and len(symbols) < len(plain):
            symbols.append(macro[name])
        if not symbols:
            continue
        if len(symbols) < len(plain):
            sys.exit(f"{name}: {plain} against {symbols}")
        if len(symbols) > len(plain):
            symbols = symbols[-len(plain):]
        pairs = dict(zip(plain, symbols))
        for version, symbol in pairs.items():
            rows.append((name, version, "", symbol))
        threaded = sorted((v, s) for v, s in forms if s)
        # The i-th newest per-thread form belongs to the i-th newest plain form.
        for back, (version, suffix) in enumerate(reversed(threaded)):
            symbol = symbols[len(symbols) - 1 - back] + suffix
            if symbol not in funcs:
                candidates = [s + suffix for s in symbols if s + suffix in funcs]
                if not candidates:
                    sys.exit(f"{name}: no symbol for {version}{suffix}")
                symbol = candidates[-1]
            rows.append((name, version, suffix, symbol))
    return rows


# Why a function that is not there is unlikely to be missed by a public program. A missing one without a reason here is an
# error: either it is likely, and belongs into tools/simgpu/driver, or its reason belongs here.
UNLIKELY = [
    (r"cuTexRef|cuSurfRef|cuModuleGetTexRef|cuModuleGetSurfRef|cuParamSetTexRef", "texture and surface references: the compiler dropped them in CUDA 12; objects are there"),
    (r"cuGraphics", "graphics interoperability: no display device"),
    (r"cuEGL|cuEventCreateFromEGLSync|cuVDPAU|cuGL", "EGL, OpenGL, VDPAU: no display device"),
    (r"External(Memory|Semaphore)", "memory and semaphores of Vulkan, Direct3D or NvSci"),
    (r"cuGreenCtx|GreenCtx|DevResource|cuDevSmResource", "green contexts: for schedulers; shunt stays out of their way"),
    (r"cuMulticast", "multicast objects: used by NCCL's NVLS only, and libnccl here is simgpu's own"),
    (r"cuTensorMap", "tensor maps: only of use to TMA instructions, which are refused by name"),
    (r"cuCheckpoint|cuCoredump|cuLogs|AsyncNotification", "for debuggers, checkpoint and monitoring tools"),
    (r"Sparse|cuMemMapArrayAsync|cuArrayGetPlane", "sparse textures and video planes"),
    (r"NvSci", "Tegra only"),
    (r"cuMemGetHandleForAddressRange", "handles for RDMA adapters"),
    (r"cuMemBatchDecompressAsync|Discard", "new in CUDA 12.6 to 13; hardware decompression, hints"),
    (r"cuLaunchCooperativeKernelMultiDevice", "withdrawn by CUDA 13's runtime"),
    (r"cuGraph.*(Conditional|cuGraphConditional)", "conditional nodes: refused by name"),
]


def newer_form(name, funcs):
    """The form that cuda.h makes of a plain name, if a newer one exists."""
    for suffix in ("_v4", "_v3", "_v2"):
        if name + suffix in funcs:
            return name + suffix
    return None


def reason(name, funcs, done):
    newer = newer_form(re.sub(r"_v\d$", "", name), funcs)
    for pattern, text in UNLIKELY:
        if re.search(pattern, name):
            return text
    if newer and newer != name and newer in done:
        return f"an older form: cuda.h makes `{newer}` of the name"
    return None


def implemented():
    found = {}
    for folder, _, files in os.walk(DRIVER):
        if os.path.basename(folder) == "generated":
            continue
        for file in sorted(files):
            if file.endswith(".cpp"):
                with open(os.path.join(folder, file)) as f:
                    text = f.read()
                for m in re.finditer(r"^(?:SIMGPU_API\s+|CUresult CUDAAPI\s+)(cu[A-Z]\w*)\(", text, re.M):
                    found[m.group(1)] = os.path.relpath(os.path.join(folder, file), ROOT)
    return found


def base_of_threaded(name):
    return name[:-5] if name.endswith(("_ptsz", "_ptds")) else None


def generate():
    include = toolkit()
    funcs = functions(include)
    rows = entries(include, funcs)
    out = {}
    banner = "// Generated by scripts/gen_simgpu_entries.py from cuda.h and cudaTypedefs.h. Do not edit.\n"
    text = banner + "// SIMGPU_ENTRY(name, version, flags: 1 legacy 2 per-thread, symbol)\n"
    for name, version, suffix, symbol in rows:
        text += f'SIMGPU_ENTRY({name}, {version}, {2 if suffix else 1}, {symbol})\n'
    out["tools/simgpu/driver/generated/entries.inc"] = text

    text = banner + '#include "tools/simgpu/driver/core/stub_support.h"\n\n'
    text += "// Weak: a definition in an api_*.cpp replaces it at link time.\n"
    for name, params in sorted(funcs.items()):
        base = base_of_threaded(name)
        signature = ", ".join(params) or "void"
        names = [parameter_name(p, i) for i, p in enumerate(params)]
        if base and base in funcs:
            if len(funcs[base]) != len(params):
                sys.exit(f"{name}: parameters differ from {base}")
            text += (f"SIMGPU_THREADED CUresult CUDAAPI {name}({signature}) {{\n  simgpu::driver::PerThreadScope scope;\n"
                     f"  return {base}({', '.join(names)});\n}}\n")
        else:
            text += f'SIMGPU_STUB CUresult CUDAAPI {name}({signature}) {{ return simgpu::driver::not_implemented("{name}"); }}\n'
    out["tools/simgpu/driver/generated/stubs.cpp"] = text

    text = "{\n  global:\n"
    for name in sorted(funcs):
        text += f"    {name};\n"
    text += "    simgpu_*;\n  local: *;\n};\n"
    out["tools/simgpu/driver/generated/libcuda.map"] = text

    done = implemented()
    text = ("# simgpu's driver API, function by function\n\nGenerated by `scripts/gen_simgpu_entries.py`. *unlikely*: the symbol exists and returns "
            "`CUDA_ERROR_NOT_SUPPORTED`; a line on stderr names it once.\nA likely function that is missing fails the generator. "
            "`_ptsz`/`_ptds` forms follow their plain form.\n\n")
    plain = [f for f in sorted(funcs) if not base_of_threaded(f)]
    have = [f for f in plain if f in done]
    text += f"{len(have)} of {len(plain)} implemented.\n\n| Function | Status | File, or why it is not likely to be missed |\n|---|---|---|\n"
    unexplained = [f for f in plain if f not in done and not reason(f, funcs, done)]
    if unexplained:
        sys.exit("missing in simgpu's driver, and no reason why that is unlikely to matter: " + " ".join(unexplained))
    for f in plain:
        text += f"| `{f}` | implemented | {done[f]} |\n" if f in done else f"| `{f}` | unlikely | {reason(f, funcs, done)} |\n"
    out["docs/driver.md"] = text
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = []
    for path, text in generate().items():
        full = os.path.join(ROOT, path)
        old = open(full).read() if os.path.exists(full) else None
        if old == text:
            continue
        stale.append(path)
        if not args.check:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as f:
                f.write(text)
    if args.check and stale:
        sys.exit("out of date, run scripts/gen_simgpu_entries.py: " + " ".join(stale))


if __name__ == "__main__":
    main()
