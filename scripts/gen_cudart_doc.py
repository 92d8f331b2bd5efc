#!/usr/bin/env python3
"""Generates docs/cudart.md: every function of the CUDA runtime's public header with what simgpu's libcudart makes of it.

Status and driver calls are read from the sources in tools/simgpu/cudart: an exported function's body and the helpers it
calls name the driver entry points they use as `driver.cu...`. A function of the header without a definition is an error.
Run without arguments from anywhere; --check fails when the committed file differs.
"""
import argparse
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "tools/simgpu/cudart")
OUTPUT = os.path.join(ROOT, "docs/cudart.md")

# Exported by the public library but declared in no public header: left out, since nobody could call them correctly.
UNDECLARED = ["__cudaGetProcAddress", "__cudaRegisterHostVar", "__cudaRegisterUnifiedTable"]
# Start-up, contexts and lookup, common to all functions: not worth a mention with each.
COMMON = {
    "start", "enter", "record", "guarded", "with_context", "with_driver", "to_runtime", "current_device", "current_context",
    "retain_primary", "bind_primary", "primary_is_active", "explain_refusal",
}
# Of these only what remains when nothing else does: how a kernel is found is said once, with cudaGetKernel.
SYMBOLS = {"resolve_kernel", "resolve_function", "load_module"}


def toolkit():
    for candidate in (os.path.join(ROOT, ".deps/cuda"), os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        if candidate and os.path.exists(os.path.join(candidate, "include/cuda_runtime_api.h")):
            return os.path.join(candidate, "include")
    sys.exit("gen_cudart_doc: no toolkit headers found")


def header_functions(include):
    """[(group title, [function])] in the header's order; the profiler's header last."""
    titles, members, current, seen = {}, {}, "", set()
    for name in ("cuda_runtime_api.h", "cuda_profiler_api.h"):
        text = open(os.path.join(include, name), encoding="utf-8").read()
        cut = text.find("#if defined(__CUDA_API_VERSION_INTERNAL)\n    #undef")  # the second set of declarations
        text = text if cut < 0 else text[:cut]
        pattern = r"\\(?:defgroup|addtogroup)\s+(CUDART\w*)[ \t]*([^\n]*)|extern\s[^;{}]*?\bCUDARTAPI\s+(cuda\w+)\s*\("
        for match in re.finditer(pattern, text):
            if match[1]:
                current = match[1]
                titles.setdefault(current, match[2].strip() or current)
            elif match[3] not in seen:
                seen.add(match[3])
                members.setdefault(current, []).append(match[3])
    return [(titles.get(group, "Other"), names) for group, names in members.items()]


def strip_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def closing(text, start):
    """Index after the brace or parenthesis group that opens at start."""
    pairs = {"{": "}", "(": ")"}
    opening, close, depth = text[start], pairs[text[start]], 0
    for i in range(start, len(text)):
        depth += text[i] == opening
        depth -= text[i] == close
        if depth == 0:
            return i + 1
    raise ValueError("unbalanced source")


def read_sources():
    exported, helpers, refused = {}, {}, {}
    for path in sorted(glob.glob(os.path.join(SOURCES, "*.cpp"))):
        text = strip_comments(open(path, encoding="utf-8").read())
        name_of_file = os.path.basename(path)
        for m in re.finditer(r"CUDART_DUAL\(\s*(_pt[sd][sz])\s*,\s*(cuda\w+)\s*,", text):
            whole = text[m.start() : closing(text, text.index("(", m.start()))]
            parameters = whole.index("(", m.end() - m.start())
            impl = re.match(r"\s*,\s*(\w+)", whole[closing(whole, parameters) :])[1]
            # One helper serves a synchronous and an asynchronous function; its last argument tells which this is.
            form = re.search(r"(nullptr|&stream)\s*\)$", whole)
            mark = {"nullptr": "@sync", "&stream": "@async"}.get(form[1] if form else "", "")
            exported[m[2]] = exported[m[2] + m[1]] = (name_of_file, impl + "(" + mark)
        for m in re.finditer(r'UNSUPPORTED\((cuda\w+),\s*"([^"]*)"\)', text):
            refused[m[1]] = m[2]
        for m in re.finditer(r"\b(operator\(\)|\w+)\s*\(", text):
            end = closing(text, text.index("(", m.end() - 1))
            after = re.match(r"\s*(const)?\s*(noexcept)?\s*\{", text[end:])
            if not after or m[1] in ("if", "for", "while", "switch", "catch", "with_context", "with_driver", "guarded"):
                continue
            before = text[max(0, text.rfind("\n", 0, m.start())) : m.start()]
            if re.search(r"\b(return|else)\b|[=,(]", before):
                continue
            start = end + after.end() - 1
            body = text[start : closing(text, start)]
            if re.match(r"cuda[A-Z]", m[1]):
                exported[m[1]] = (name_of_file, body)
            else:
                helpers.setdefault((name_of_file, m[1]), "")
                helpers[(name_of_file, m[1])] += body
        # The sinks of graph_copy_nodes.cpp: structures whose call operator holds the driver call.
        for m in re.finditer(r"\bstruct (\w+) \{", text):
            body = text[m.end() - 1 : closing(text, m.end() - 1)]
            if "operator()" in body:
                helpers[(name_of_file, m[1])] = body
    return exported, helpers, refused


def driver_calls(file, body, helpers, visited, left_out):
    """Names in order of appearance, helpers followed (first in the same file)."""
    calls = []
    for m in re.finditer(r"\bdriver\.(cu[A-Z]\w*)|\b(\w+)\s*[({]", body):
        if m[1]:
            if m[1] not in calls:
                calls.append(m[1])
            continue
        if m[2] in left_out:
            continue
        key = (file, m[2])
        if key not in helpers:
            elsewhere = [k for k in helpers if k[1] == m[2]]
            key = elsewhere[0] if len(elsewhere) == 1 else None
        if key and key not in visited:
            for name in driver_calls(key[0], helpers[key], helpers, visited | {key}, left_out):
                if name not in calls:
                    calls.append(name)
    return calls


def render(include):
    exported, helpers, refused = read_sources()
    groups = header_functions(include)
    missing = [n for _, names in groups for n in names if n not in exported and n not in refused]
    if missing:
        sys.exit("gen_cudart_doc: no definition of " + ", ".join(missing))
    total = sum(len(names) for _, names in groups)
    rows, implemented = [], 0
    for title, names in groups:
        rows += ["", f"## {title}", "", "| Function | Status | Driver calls |", "|---|---|---|"]
        for name in names:
            forms = "".join(f" `{s}`" for s in ("_ptsz", "_ptds") if name + s in exported)
            file, body = exported.get(name, ("", ""))
            if name in refused or re.search(r"guarded\(\[\] { return cudaErrorNotSupported; }\)", body):
                reason = refused.get(name, "private tables between NVIDIA's libraries, not imitated")
                rows.append(f"| `{name}`{forms} | not supported: {reason} | |")
                continue
            implemented += 1
            calls = driver_calls(file, body, helpers, set(), COMMON | SYMBOLS) or driver_calls(file, body, helpers, set(), COMMON)
            if "@sync" in body or name + "_ptds" in exported:
                calls = [c for c in calls if not c.endswith("Async")] or calls
            elif "@async" in body:
                calls = [c for c in calls if c.endswith("Async") or not re.match("cuMem(cpy|set)", c)]
            status = "implemented" if calls else "implemented in the runtime"
            rows.append(f"| `{name}`{forms} | {status} | {' '.join(f'`{c}`' for c in calls)} |")
    head = [
        "# simgpu's CUDA runtime, function by function",
        "",
        "Generated by `scripts/gen_cudart_doc.py` from the toolkit's header and `tools/simgpu/cudart`. Every function of the",
        "header is exported, with the version node and the per-thread default-stream forms (`_ptsz`, `_ptds`) of the public library.",
        "*Implemented* means: the runtime's own rules (error state, contexts, symbols, conversions) are there, and the work is the",
        "named driver calls'. What of those simgpu's driver lacks is in [driver.md](driver.md); such a call gives",
        "`cudaErrorNotSupported`. On top of these every call starts the driver and binds a context when it needs one.",
        "",
        f"{implemented} of {total} implemented.",
    ]
    tail = [
        "",
        "## Exported beyond the header",
        "",
        "What nvcc's generated code calls (`crt/host_runtime.h`): `__cudaRegisterFatBinary`, `__cudaRegisterFatBinaryEnd`,",
        "`__cudaUnregisterFatBinary`, `__cudaRegisterFunction`, `__cudaRegisterVar`, `__cudaRegisterManagedVar`, `__cudaInitModule`,",
        "`__cudaPushCallConfiguration`, `__cudaPopCallConfiguration`, `__cudaGetKernel`, `__cudaLaunchKernel` `_ptsz`.",
        "",
        "Refused with `cudaErrorNotSupported`:",
        "",
    ]
    for reason in sorted(set(refused.values())):
        tail.append(f"* {reason}: " + ", ".join(f"`{n}`" for n in sorted(refused) if refused[n] == reason))
    tail += ["", "Not exported, being declared in no public header: " + ", ".join(f"`{n}`" for n in UNDECLARED) + "."]
    return "\n".join(head + rows + tail) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file, write nothing")
    arguments = parser.parse_args()
    text = render(toolkit())
    if arguments.check:
        old = open(OUTPUT, encoding="utf-8").read() if os.path.exists(OUTPUT) else ""
        if old != text:
            sys.exit("docs/cudart.md is out of date: run scripts/gen_cudart_doc.py")
        return
    with open(OUTPUT, "w", encoding="utf-8") as out:
        out.write(text)


if __name__ == "__main__":
    main()
