#!/usr/bin/env python3
"""Reads a CUDA toolkit's public headers and writes the spec that everything in interpose/ is generated from.

    scripts/import_api.py [--cuda-include DIR] [--nccl-header FILE] [--check]

cuda.h and cudaProfiler.h say which symbols exist, the *Typedefs.h headers say with which version cuGetProcAddress knows
them and what their exact (versioned) types are. nccl.h says the same for NCCL. Results: interpose/api/cuda.json and
interpose/api/nccl.json. What a newer toolkit dropped stays in the spec (marked "dropped"): drivers keep old symbols.

The class of a function (CLASSES) says what a deferring engine must do before it runs. RULES below, in order, first match
wins, after the exceptions in OVERRIDES; a function nothing covers is an error, so a new toolkit's functions have to be
looked at by a person.
"""
import argparse
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

CLASSES = {
    "harmless": "neither observes nor changes work, memory or anything shunt shadows: never hooked, zero cost",
    "launch": "puts work that is not a copy into a stream: kernels, graphs, events, waits, host functions, semaphores",
    "copy": "moves, sets, prefetches or discards memory, in a stream or at once",
    "alloc": "creates memory or a handle that work may use: stream, event, graph executable, array",
    "free": "ends such a thing's life while pending work may still use it",
    "sync": "waits for work, or marks a point before which all work must have been issued",
    "query": "asks about something that pending work changes, or that shunt answers differently",
    "capture": "stream capture, and building or editing a graph",
    "module": "loads, unloads, or looks things up in code",
    "attribute": "changes a setting that later work reads",
    "device": "device numbers and contexts: placement and the shadow of the current context live here",
}

# Exceptions to the rules, each with its reason where the name does not give it away.
OVERRIDES = {
    "cuCtxSynchronize": "sync",
    "cuMemFreeAsync": "free",
    "cuMemAllocAsync": "alloc",
    "cuGraphInstantiate": "alloc",
    "cuGraphInstantiateWithFlags": "alloc",
    "cuGraphInstantiateWithParams": "alloc",
    "cuGraphUpload": "launch",
    "cuGraphLaunch": "launch",
    "cuGraphMemFreeNodeGetParams": "harmless",
    "cuGraphMemAllocNodeGetParams": "harmless",
    "cuDeviceGraphMemTrim": "free",
    "cuDeviceRegisterAsyncNotification": "device",
    "cuGraphKernelNodeGetAttribute": "harmless",
    "cuGraphKernelNodeSetAttribute": "capture",
    "cuGraphKernelNodeCopyAttributes": "capture",
    "cuStreamCopyAttributes": "attribute",
    "cuMemGetInfo": "query",
    "cuMemGetAddressRange": "query",
    "cuMemGetHandleForAddressRange": "query",
    "cuMemAdvise": "attribute",
    "cuMemRangeGetAttribute": "query",    # last prefetch location: pending work changes it
    "cuMemRangeGetAttributes": "query",
    "cuPointerGetAttribute": "query",     # device ordinals, and memory kinds a spill may have changed
    "cuPointerGetAttributes": "query",
    "cuMemMapArrayAsync": "copy",
    "cuMemMap": "alloc",
    "cuMemUnmap": "free",
    "cuMemSetAccess": "attribute",
    "cuMemGetAccess": "query",
    "cuMemRetainAllocationHandle": "alloc",
    "cuMemRelease": "free",
    "cuMemGetAllocationGranularity": "device",       # takes a device ordinal
    "cuMulticastGetGranularity": "harmless",
    "cuMemGetAllocationPropertiesFromHandle": "device",
    "cuMemExportToShareableHandle": "query",
    "cuMemImportFromShareableHandle": "alloc",
    "cuMemBatchDecompressAsync": "launch",
    "cuMemHostGetDevicePointer": "query",
    "cuMemHostGetFlags": "harmless",
    "cuMemPoolTrimTo": "free",
    "cuMemPoolSetAttribute": "attribute",
    "cuMemPoolGetAttribute": "query",
    "cuMemPoolSetAccess": "attribute",
    "cuMemPoolGetAccess": "query",
    "cuMemGetDefaultMemPool": "device",
    "cuMemGetMemPool": "device",
    "cuMemSetMemPool": "device",
    "cuIpcGetEventHandle": "query",
    "cuIpcGetMemHandle": "query",
    "cuIpcOpenEventHandle": "alloc",
    "cuIpcOpenMemHandle": "alloc",
    "cuIpcCloseMemHandle": "free",
    "cuEventElapsedTime": "query",
    "cuEventQuery": "query",
    "cuStreamQuery": "query",
    "cuStreamGetCtx": "device",
    "cuStreamGetGreenCtx": "device",
    "cuStreamGetDevice": "device",
    "cuThreadExchangeStreamCaptureMode": "capture",
    "cuStreamAttachMemAsync": "launch",
    "cuCtxGetDevice": "device",
    "cuFuncGetModule": "module",
    "cuFuncLoad": "module",
    "cuFuncIsLoaded": "query",
    "cuInit": "device",
    "cuGetExportTable": "harmless",       # a private table: nothing behind it can be intercepted anyway
    "cuGetProcAddress": "harmless",       # answered by libshunt.so itself
    "cuDriverGetVersion": "harmless",
    "cuGetErrorString": "harmless",
    "cuGetErrorName": "harmless",
    "cuProfilerInitialize": "harmless",
    "cuProfilerStart": "sync",            # work issued before must not fall into the profiled range
    "cuProfilerStop": "sync",
    "cuFlushGPUDirectRDMAWrites": "sync",
    "cuUserObjectCreate": "harmless",
    "cuUserObjectRetain": "harmless",
    "cuUserObjectRelease": "free",        # may run the destructor of something pending work uses
    "cuGraphRetainUserObject": "capture",
    "cuGraphReleaseUserObject": "capture",
    "cuTensorMapReplaceAddress": "harmless",
    "cuDeviceUnregisterAsyncNotification": "device",
    "cuGraphConditionalHandleCreate": "capture",
    "cuGraphExecGetFlags": "harmless",
    "cuModuleGetLoadingMode": "harmless",
    "cuKernelGetFunction": "module",
    "cuKernelGetLibrary": "module",
    "cuGraphDebugDotPrint": "harmless",
}

# (pattern on the base name, class). First match wins.
RULES = (
    (r"^cuGraphExec\w*SetParams$|^cuGraphExecUpdate$|^cuGraphNodeSetEnabled$|^cuGraphExec\w*SetEvent$", "attribute"),
    (r"^cuGraph(Destroy|ExecDestroy)$", "free"),
    (r"^cuGraph(Create|Clone)$", "capture"),
    (r"^cuGraph(Add|Remove|DestroyNode)|^cuGraph\w*(SetParams|SetEvent)$", "capture"),
    (r"^cuGraph(Get|NodeGet|NodeFind|ChildGraphNodeGet)\w*$|^cuGraph\w*(GetParams|GetEvent)$", "harmless"),
    (r"^cuGraphics(Map|Unmap)Resources$", "launch"),
    (r"^cuGraphicsResourceSetMapFlags$", "attribute"),
    (r"^cuGraphicsUnregister", "free"),
    (r"^cuGraphics", "query"),
    (r"^cuLaunch|^cuStreamAddCallback$|^cuStreamWaitEvent$|^cuEventRecord", "launch"),
    (r"^cuStream(Wait|Write)Value(32|64)$|^cuStreamBatchMemOp$", "launch"),
    (r"^cu(Signal|Wait)ExternalSemaphoresAsync$", "launch"),
    (r"^cuMemcpy|^cuMemset|^cuMemPrefetch|^cuMemDiscard", "copy"),
    (r"^cu(Stream|Event)Synchronize$", "sync"),
    (r"^cuStream(Begin|End|Is|GetCapture|UpdateCapture)", "capture"),
    (r"^cu(Stream|Event)(Create|CreateWithPriority)$|^cuGreenCtxStreamCreate$", "alloc"),
    (r"^cu(Stream|Event)Destroy$", "free"),
    (r"^cuStreamSetAttribute$", "attribute"),
    (r"^cuStreamGet(Priority|Flags|Id|Attribute)$", "harmless"),
    (r"^cuGreenCtx(RecordEvent|WaitEvent)$|^cuCtx(RecordEvent|WaitEvent)$", "launch"),
    (r"^cuMemPool(Create|Import\w*)$", "alloc"),
    (r"^cuMemPoolDestroy$", "free"),
    (r"^cuMemPoolExport", "query"),
    (r"^cuMem(Alloc|HostAlloc|HostRegister|Create|AddressReserve)", "alloc"),
    (r"^cuMem(Free|HostUnregister|AddressFree)", "free"),
    (r"^cuMipmappedArray(Create)$|^cuArray(3D)?Create$", "alloc"),
    (r"^cu(Mipmapped)?ArrayDestroy$", "free"),
    (r"^cu(Mipmapped)?Array", "harmless"),
    (r"^cuImportExternal|^cuExternalMemoryGetMapped", "alloc"),
    (r"^cuDestroyExternal", "free"),
    (r"^cu(Tex|Surf)(Object|Ref)Create$", "alloc"),
    (r"^cu(Tex|Surf)(Object|Ref)Destroy$", "free"),
    (r"^cu(Tex|Surf)RefSet|^cuParamSet|^cuFuncSet|^cuKernelSet", "attribute"),
    (r"^cu(Tex|Surf)(Object|Ref)Get|^cuTensorMapEncode", "harmless"),
    (r"^cuOccupancy|^cuFuncGet|^cuKernelGet|^cuCoredump|^cuLogs", "harmless"),
    (r"^cuModule|^cuLibrary|^cuLink", "module"),
    (r"^cuPointerSet|^cuCtxSet(Limit|CacheConfig|SharedMemConfig|Flags)$|^cuCtxResetPersistingL2Cache$", "attribute"),
    (r"^cuCtxGet(ApiVersion|CacheConfig|Current|Flags|Id|Limit|SharedMemConfig|StreamPriorityRange|ExecAffinity)$",
     "harmless"),
    (r"^cuMulticast(Create)$", "alloc"),
    (r"^cuMulticast(AddDevice|Bind|Unbind)", "attribute"),
    (r"^cuDevResourceGenerateDesc$|^cuDevSmResourceSplit", "harmless"),
    (r"^cuCheckpoint", "sync"),
    (r"^cuDevice|^cuCtx|^cuGreenCtx", "device"),
)

# cuda.h renames this one call to another base name, so a driver may answer the old name with the new function.
ALIASES = {"cuGraphInstantiate": [{"version": 12000, "symbol": "cuGraphInstantiateWithFlags"}]}

NCCL_CLASS = {
    "ncclMemAlloc": "alloc", "ncclMemFree": "free",
    "ncclGetVersion": "harmless", "ncclGetErrorString": "harmless", "ncclGetLastError": "harmless",
    "ncclResetDebugInit": "harmless",
    "ncclCommCount": "harmless", "ncclCommUserRank": "harmless",
    "ncclCommCuDevice": "device",
    "ncclCommGetAsyncError": "query",
    "ncclCommFinalize": "sync", "ncclCommDestroy": "free", "ncclCommAbort": "free", "ncclCommRevoke": "free",
}
NCCL_RULES = (
    (r"^nccl(AllReduce|Broadcast|Bcast|Reduce|ReduceScatter|AllGather|AlltoAll|Gather|Scatter|Send|Recv)$", "launch"),
    (r"^ncclGroup(Start|End|SimulateEnd)$", "launch"),
    (r"^ncclCommInit|^ncclComm(Split|Shrink|Grow)$|^ncclGetUniqueId$", "alloc"),
    (r"^ncclComm(Window)?Register$", "alloc"),
    (r"^ncclComm(Window)?Deregister$", "free"),
    (r"^ncclRedOpCreate", "alloc"),
    (r"^ncclRedOpDestroy$", "free"),
)


def fail(text):
    sys.exit("import_api: " + text)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError as error:
        fail(f"{path}: {error.strerror}")


def strip_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def classify(name, overrides, rules):
    kind = overrides.get(name) or next((kind for pattern, kind in rules if re.search(pattern, name)), None)
    if kind in CLASSES:
        return kind
    fail(f"{name}: no class; add a rule or an override in scripts/import_api.py")


def handle_types(text):
    """typedef struct CUstream_st *CUstream;  ->  {"CUstream": "stream"}"""
    found = {}
    for name in re.findall(r"typedef\s+struct\s+\w+_st\s*\*\s*(CU\w+)\s*;", text):
        found[name] = re.sub(r"(?<!^)(?=[A-Z])", "_", name[2:]).lower()
    return found


def split_params(text):
    text = " ".join(text.split())
    if text in ("", "void"):
        return []
    return [part.strip() for part in text.split(",")]


def parse_param(text, handles):
    text = re.sub(r"\bCUDAAPI\b", "", text)
    array = ""
    match = re.match(r"^(.*?)(\w+)\s*(\[\w*\])?$", text.strip())
    if not match or not match.group(1).strip():
        fail(f"parameter not understood: {text!r}")
    kind, name, array = match.group(1).strip(), match.group(2), match.group(3) or ""
    kind = re.sub(r"\s*\*\s*", "*", kind)
    if array:
        kind += "*"
    kind = re.sub(r"(\w)\*", r"\1 *", kind)
    base = re.sub(r"\bconst\b|\*", "", kind).strip()
    depth = kind.count("*")
    param = {"type": kind, "name": name}
    if depth == 0:
        param["dir"] = "in"
    elif kind.startswith("const ") and depth == 1:
        param["dir"] = "in"
    else:
        param["dir"] = "out"
    if base in handles and depth <= 1:
        param["handle"] = handles[base]
    return param


# Pointers to non-const that are read, or read and written. Everything else non-const is written.
IN_POINTERS = {
    "options", "optionValues", "jitOptions", "jitOptionsValues", "libraryOptions", "libraryOptionValues",
    "kernelParams", "extra", "userData", "data", "paramsArray", "paramArray", "mapInfoList", "launchParamsList",
    "ctxCreateParams", "numElements", "dptrs", "dsts", "srcs", "sizes", "attrs", "attrsIdxs", "opList", "prefetchLocs",
    "prefetchLocIdxs", "resources", "callbackFunc", "ptr", "p", "hostPtr", "args", "nbInput", "poolProps", "addr",
    "lossy", "nodeParams", "config",
}
INOUT_POINTERS = {"numNodes", "numRootNodes", "numEdges", "numDependencies", "numDependentNodes", "instantiateParams",
                  "tensorMap", "size_inout"}


def refine(name, params):
    """Directions the type alone does not give, and lengths a neighbour gives."""
    for index, param in enumerate(params):
        if "*" not in param["type"] or param["type"].startswith("const ") and param["type"].count("*") == 1:
            pass
        elif param["name"] in INOUT_POINTERS and param["type"].endswith("*") and not name.startswith("cuGraphAdd"):
            param["dir"] = "inout"
        elif param["type"] == "void *" or param["name"] in IN_POINTERS:
            reads = not re.search(r"Get(Params|Attribute)|DtoH|AtoH|QueryAttr", name)
            param["dir"] = "in" if reads else "out"
    names = [p["name"] for p in params]
    lower = [n.lower() for n in names]
    for param in params:
        if "*" not in param["type"]:
            continue
        stem = param["name"].lower()
        for candidate in ("num" + stem, stem + "count", "num" + stem + "s", stem + "size", "num" + stem.rstrip("s")):
            if candidate in lower:
                param["length"] = names[lower.index(candidate)]
        if "length" in param:
            continue
        if stem in ("options", "optionvalues") and "numOptions" in names:
            param["length"] = "numOptions"
        elif stem.startswith("jitoptions") and "numJitOptions" in names:
            param["length"] = "numJitOptions"
        elif stem.startswith("libraryoption") and "numLibraryOptions" in names:
            param["length"] = "numLibraryOptions"
        elif stem in ("from", "to", "edgedata", "dependencydata") and "numDependencies" in names:
            param["length"] = "numDependencies"
        elif stem in ("from", "to", "edgedata") and "numEdges" in names:
            param["length"] = "numEdges"
        elif stem in ("paramsarray", "extsemarray") and "numExtSems" in names:
            param["length"] = "numExtSems"
        elif stem in ("paramarray", "paramsarray", "mapinfolist", "dptrs", "dsts", "srcs", "sizes", "resources",
                      "operations", "capabilities") and "count" in names:
            param["length"] = "count"
        elif stem in ("srchost", "dsthost") and "ByteCount" in names:
            param["length"] = "ByteCount"
        elif param["type"] == "char *" and "len" in names:
            param["length"] = "len"
    return params


def parse_typedefs(text, handles):
    """{base: {(version, suffix): params}} from typedef CUresult (CUDAAPI *PFN_cuX_v3020_ptsz)(...)"""
    found = {}
    pattern = r"typedef\s+CUresult\s*\(\s*CUDAAPI\s*\*\s*PFN_(cu\w+?)_v(\d+)(?:_(ptsz|ptds))?\s*\)\s*\((.*?)\)\s*;"
    for base, version, suffix, params in re.findall(pattern, text, flags=re.S):
        parsed = refine(base, [parse_param(p, handles) for p in split_params(params)])
        found.setdefault(base, {})[(int(version), suffix)] = parsed
    return found


def header_symbols(text):
    """Every exported name the headers tell of: macro targets, their stream variants, literal old declarations."""
    symbols, renamed = set(), {}
    inline = set(re.findall(r"static\s+inline\s+CUresult\s+(\w+)", text))  # cuGetProcAddress_v2_ptsz: no export
    for name, target in re.findall(r"^[ \t]*#define[ \t]+(cu[A-Z]\w+)[ \t]+(\S.*?)[ \t]*$", text, flags=re.M):
        wrapped = re.match(r"__CUDA_API_(PTSZ|PTDS)\((\w+)\)$", target)
        if wrapped:
            symbols.update((wrapped.group(2), f"{wrapped.group(2)}_{wrapped.group(1).lower()}"))
            if name != wrapped.group(2):
                renamed[name] = wrapped.group(2)
        elif re.match(r"^cu[A-Z]\w+$", target) and target not in inline:
            symbols.add(target)
            renamed[name] = target
    cut = re.search(r"^#if defined\(__CUDA_API_VERSION_INTERNAL\)\s*\n\s*#undef", text, flags=re.M)
    public, internal = (text[:cut.start()], text[cut.start():]) if cut else (text, "")
    # After the block of old declarations come the newest groups (checkpoint), which are public again.
    end = re.search(r"^#elif defined\(__CUDA_API_PER_THREAD_DEFAULT_STREAM\)", internal, flags=re.M)
    if end:
        public += internal[end.start():]
        internal = internal[:end.start()]
    declared = r"\bCUDAAPI\s+(cu[A-Z]\w+)\s*\("
    for name in re.findall(declared, public):
        symbols.add(renamed.get(name, name))
    symbols.update(re.findall(declared, internal))
    return symbols


def import_cuda(include):
    headers = ("cuda.h", "cudaProfiler.h")
    texts = {h: strip_comments(read(os.path.join(include, h))) for h in headers}
    handles = handle_types(texts["cuda.h"])
    toolkit = int(re.search(r"#define\s+CUDA_VERSION\s+(\d+)", texts["cuda.h"]).group(1))
    functions = []
    used = set()
    everything = set()
    for header, typedefs in zip(headers, ("cudaTypedefs.h", "cudaProfilerTypedefs.h")):
        symbols = header_symbols(texts[header])
        everything |= symbols
        types = parse_typedefs(strip_comments(read(os.path.join(include, typedefs))), handles)
        for base in sorted(types):
            mine = {s for s in symbols if re.fullmatch(re.escape(base) + r"(_v\d+)?(_ptsz|_ptds)?", s)}
            number = lambda s: int((re.search(r"_v(\d+)(?:_pt[sd][sz])?$", s) or [0, 1])[1])
            legacy = sorted((s for s in mine if not re.search(r"_pt[sd][sz]$", s)), key=number)
            stream = sorted((s for s in mine if re.search(r"_pt[sd][sz]$", s)), key=number)
            legacy_types = sorted(k for k in types[base] if not k[1])
            stream_types = sorted(k for k in types[base] if k[1])
            if len(legacy) != len(legacy_types) or len(stream) != len(stream_types):
                fail(f"{base}: symbols {legacy + stream} do not pair with versions {sorted(types[base])}")
            versions = []
            for symbol, key in zip(legacy, legacy_types):
                versions.append({"version": key[0], "symbol": symbol, "typedef": f"PFN_{base}_v{key[0]}",
                                 "params": types[base][key]})
            shape = lambda params: [re.sub(r"_v\d+\b", "", p["type"]) for p in params]
            for symbol, key in zip(stream, stream_types):
                suffix = symbol.rsplit("_", 1)[1]
                if suffix != key[1]:
                    fail(f"{symbol}: typedef says {key[1]}")
                owner = [v for v in versions if v["symbol"] == symbol[:-len(suffix) - 1]]
                if not owner or shape(owner[0]["params"]) != shape(types[base][key]):
                    fail(f"{symbol}: no version with the same parameters")
                owner[0]["stream_variant"] = {"version": key[0], "symbol": symbol,
                                              "typedef": f"PFN_{base}_v{key[0]}_{suffix}"}
            used |= mine
            entry = {"name": base, "class": classify(base, OVERRIDES, RULES), "header": header, "versions": versions}
            if base in ALIASES:
                entry["aliases"] = ALIASES[base]
            functions.append(entry)
    missing = sorted(everything - used)
    if missing:
        fail(f"symbols without a typedef: {missing}")
    return {"schema": 1, "api": "cuda", "toolkit": toolkit, "library": "libcuda.so.1",
            "result": "CUresult", "functions": sorted(functions, key=lambda f: f["name"])}


def import_nccl(path):
    text = strip_comments(read(path))
    version = re.search(r"#define\s+NCCL_VERSION_CODE\s+(\d+)", text)
    pattern = r"^[ \t]*(ncclResult_t|const\s+char\s*\*|void)\s+(p?nccl[A-Z]\w*)\s*\(([^;{]*?)\)\s*;"
    handles = {"ncclComm_t": "comm", "cudaStream_t": "stream", "ncclWindow_t": "window"}
    found = {}
    for result, name, params in re.findall(pattern, text, flags=re.S | re.M):
        result = "const char *" if "char" in result else result
        found[name] = (result, [parse_param(p, handles) for p in split_params(params)])
    functions = []
    for name in sorted(n for n in found if n.startswith("nccl")):
        result, params = found[name]
        twin = "p" + name
        if twin not in found or [p["type"] for p in found[twin][1]] != [p["type"] for p in params]:
            fail(f"{name}: no {twin} with the same parameters")
        functions.append({"name": name, "class": classify(name, NCCL_CLASS, NCCL_RULES), "result": result,
                          "twin": twin, "params": params})
    if not functions:
        fail(f"{path}: no ncclX declarations found")
    return {"schema": 1, "api": "nccl", "version": int(version.group(1)) if version else 0, "library": "libnccl.so.2",
            "functions": functions}


def keep_dropped(new, path):
    """A driver keeps what a newer header no longer declares."""
    if not os.path.exists(path):
        return new
    with open(path, encoding="utf-8") as handle:
        old = json.load(handle)
    names = {f["name"]: f for f in new["functions"]}
    for function in old["functions"]:
        if function["name"] not in names:
            function["dropped"] = True
            new["functions"].append(function)
        elif "versions" in function:
            mine = names[function["name"]]
            have = {v["symbol"] for v in mine["versions"]}
            mine["versions"] += [dict(v, dropped=True) for v in function["versions"] if v["symbol"] not in have]
            mine["versions"].sort(key=lambda v: v["version"])
    new["functions"].sort(key=lambda f: f["name"])
    return new


def dump(spec):
    """One line per version: a diff between two toolkits then reads like a list of changes."""
    out = ["{"]
    for key, value in spec.items():
        if key != "functions":
            out.append(f" {json.dumps(key)}: {json.dumps(value)},")
    out.append(' "functions": [')
    rows = []
    for function in spec["functions"]:
        head = {k: v for k, v in function.items() if k not in ("versions", "params")}
        body = json.dumps(head)[:-1]
        if "versions" in function:
            versions = ",\n".join("    " + json.dumps(v) for v in function["versions"])
            rows.append(f'  {body}, "versions": [\n{versions}]}}')
        else:
            rows.append(f'  {body},\n    "params": {json.dumps(function["params"])}}}')
    out.append(",\n".join(rows))
    out.append(" ]\n}\n")
    return "\n".join(out)


def skip_other_versions(include, nccl):
    """--check compares with the headers the spec was made from; others rightly differ. Exit status 77: skipped."""
    for name, path, macro, key in (("cuda", os.path.join(include, "cuda.h"), "CUDA_VERSION", "toolkit"),
                                   ("nccl", nccl, "NCCL_VERSION_CODE", "version")):
        with open(os.path.join(ROOT, "interpose", "api", name + ".json"), encoding="utf-8") as handle:
            wanted = json.load(handle)[key]
        found = None
        if os.path.exists(path):
            found = int(re.search(rf"#define\s+{macro}\s+(\d+)", read(path)).group(1))
        if found != wanted:
            print(f"import_api: {path} is {macro} {found}, the spec was made from {wanted}: not compared")
            sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda-include", default=os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include"))
    parser.add_argument("--nccl-header", help="default: nccl.h beside cuda.h")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    options = parser.parse_args()
    nccl = options.nccl_header or os.path.join(options.cuda_include, "nccl.h")
    if options.check:
        skip_other_versions(options.cuda_include, nccl)
    cuda = import_cuda(options.cuda_include)
    unknown = sorted(set(OVERRIDES) - {f["name"] for f in cuda["functions"]})
    if unknown:
        print(f"import_api: note: overrides for functions this toolkit lacks: {unknown}", file=sys.stderr)
    stale = []
    for name, spec in (("cuda", cuda), ("nccl", import_nccl(nccl))):
        path = os.path.join(ROOT, "interpose", "api", name + ".json")
        text = dump(keep_dropped(spec, path))
        json.loads(text)
        old = read(path) if os.path.exists(path) else None
        if text == old:
            continue
        stale.append(path)
        if not options.check:
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)
    if options.check and stale:
        fail("out of date: " + ", ".join(stale))


if __name__ == "__main__":
    main()
