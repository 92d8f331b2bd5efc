#!/usr/bin/env python3
"""Reads a simulated box through nvidia-ml-py, NVIDIA's own client, and compares with the profiles the box is made of
and with what `shunt devices` says of it.

  pynvml_client.py --library build/lib/simgpu/libnvidia-ml.so.1 --shunt build/bin/shunt

The client's structure layouts are the judge of simgpu's. Runs itself in the repository's .venv when that has the
package; exits 77 (skipped) where no interpreter has it.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOX = ["b200", "b200", "gb200", "rubin"]

try:
    import pynvml as nv
except ImportError:
    for python in (os.environ.get("SHUNT_TEST_PYTHON"), str(ROOT / ".venv/bin/python")):
        if python and os.path.exists(python) and not os.environ.get("SHUNT_PYNVML_TRIED"):
            os.environ["SHUNT_PYNVML_TRIED"] = "1"
            os.execv(python, [python, *sys.argv])
    print("skipped: nvidia-ml-py is not installed (scripts/test puts it into .venv)")
    sys.exit(77)

failures = 0
checks = 0


def same(what, got, expected):
    global failures, checks
    checks += 1
    if got != expected:
        failures += 1
        print(f"FAIL {what}: got {got!r}, expected {expected!r}")


def profile(key):
    units = {"": 1, "KiB": 1024, "MiB": 1 << 20, "MB": 10**6, "GB/s": 1e9, "TB/s": 1e12, "TF": 1e12, "PF": 1e15}
    data = tomllib.loads((ROOT / f"runtime/profiles/data/{key}.toml").read_text())
    return data, {k: v["value"] * units[v.get("unit", "")] for k, v in data["values"].items()}


def raises(code, call, *args):
    try:
        call(*args)
    except nv.NVMLError as error:
        return error.value == code
    return False


def identity(handle, key):
    data, _ = profile(key)
    same("name", nv.nvmlDeviceGetName(handle), data["name"])
    pci = nv.nvmlDeviceGetPciInfo(handle)
    same("pciDeviceId", pci.pciDeviceId, data["pci_device_id"] << 16 | 0x10DE)
    same("pci round trip", nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByPciBusId(pci.busId.encode())), nv.nvmlDeviceGetIndex(handle))
    same("pci legacy", f"{pci.domain:04X}:{pci.bus:02X}:{pci.device:02X}.0", pci.busIdLegacy)
    uuid = nv.nvmlDeviceGetUUID(handle)
    same("uuid shape", bool(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)), True)
    same("uuid round trip", nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUID(uuid.encode())), nv.nvmlDeviceGetIndex(handle))
    same("uuid v round trip", nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUIDV(uuid.encode(), nv.NVML_UUID_TYPE_ASCII)),
         nv.nvmlDeviceGetIndex(handle))
    same("compute capability", "%d.%d" % tuple(nv.nvmlDeviceGetCudaComputeCapability(handle)), data["compute_capability"])
    same("architecture", nv.nvmlDeviceGetArchitecture(handle), data["nvml_architecture"])
    same("addressing", nv.nvmlDeviceGetAddressingMode(handle), ["none", "hmm", "ats"].index(data["addressing"]))
    same("mig", nv.nvmlDeviceGetMigMode(handle), [0, 0])
    same("brand", nv.nvmlDeviceGetBrand(handle), nv.NVML_BRAND_NVIDIA)
    same("ecc", nv.nvmlDeviceGetEccMode(handle), [1, 1])


def memory(handle, key):
    _, values = profile(key)
    info = nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2)
    same("memory total", info.total, values["memory_bytes"])
    same("memory reserved", info.reserved, values["reserved_bytes"])
    same("memory sum", info.reserved + info.used + info.free, info.total)
    old = nv.nvmlDeviceGetMemoryInfo(handle)
    same("memory v1", (old.total, old.free, old.used), (info.total, info.free, info.used + info.reserved))
    same("processes", nv.nvmlDeviceGetComputeRunningProcesses(handle), [])
    same("graphics processes", nv.nvmlDeviceGetGraphicsRunningProcesses(handle), [])
    same("utilisation", nv.nvmlDeviceGetUtilizationRates(handle).gpu, 0)
    same("bus width", nv.nvmlDeviceGetMemoryBusWidth(handle), values["memory_bus_bits"])


def power(handle, key):
    _, values = profile(key)
    limits = [int(values["power_min_w"] * 1000), int(values["power_max_w"] * 1000)]
    same("power constraints", nv.nvmlDeviceGetPowerManagementLimitConstraints(handle), limits)
    same("power default", nv.nvmlDeviceGetPowerManagementDefaultLimit(handle), values["power_default_w"] * 1000)
    same("power usage", nv.nvmlDeviceGetPowerUsage(handle), values["idle_w"] * 1000)
    os.environ["SIMGPU_ROOT"] = "0"
    same("power needs root", raises(nv.NVML_ERROR_NO_PERMISSION, nv.nvmlDeviceSetPowerManagementLimit, handle, limits[0]), True)
    os.environ["SIMGPU_ROOT"] = "1"
    same("power range", raises(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceSetPowerManagementLimit, handle, limits[0] - 1), True)
    nv.nvmlDeviceSetPowerManagementLimit(handle, limits[0])
    same("power set", nv.nvmlDeviceGetEnforcedPowerLimit(handle), limits[0])
    nv.nvmlDeviceSetPowerManagementLimit_v2(handle, nv.NVML_POWER_SCOPE_GPU, limits[1])
    same("power set v2", nv.nvmlDeviceGetPowerManagementLimit(handle), limits[1])
    fields = nv.nvmlDeviceGetFieldValues(handle, [nv.NVML_FI_DEV_POWER_MIN_LIMIT, nv.NVML_FI_DEV_POWER_CURRENT_LIMIT, (nv.NVML_FI_DEV_POWER_MAX_LIMIT, nv.NVML_POWER_SCOPE_GPU)])
    same("power fields", [(f.nvmlReturn, f.value.uiVal) for f in fields], [(0, limits[0]), (0, limits[1]), (0, limits[1])])
    base = nv.nvmlDeviceGetFieldValues(handle, [(nv.NVML_FI_DEV_POWER_CURRENT_LIMIT, nv.NVML_POWER_SCOPE_GPU_BASE)])[0]
    expected = (0, 2100000) if key == "rubin" else (nv.NVML_ERROR_NOT_SUPPORTED, 0)
    same("base power limit", (base.nvmlReturn, base.value.uiVal), expected)
    same("max clock", nv.nvmlDeviceGetMaxClockInfo(handle, nv.NVML_CLOCK_SM), values["sm_clock_mhz"])
    same("temperature forms agree", nv.nvmlDeviceGetTemperatureV(handle, nv.NVML_TEMPERATURE_GPU), nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU))
    same("margin", nv.nvmlDeviceGetMarginTemperature(handle) > 0, True)
    same("idle reason", nv.nvmlDeviceGetCurrentClocksEventReasons(handle), nv.nvmlClocksEventReasonGpuIdle)
    same("fan", raises(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetFanSpeed, handle), True)


def links(handle, key):
    _, values = profile(key)
    count = 0
    while count < nv.NVML_NVLINK_MAX_LINKS + 1:
        try:
            same(f"link {count}", nv.nvmlDeviceGetNvLinkState(handle, count), 1)
        except nv.NVMLError as error:
            same("end of links", error.value, nv.NVML_ERROR_INVALID_ARGUMENT)
            break
        count += 1
    same("links", count, values["nvlink_links"])
    expected = nv.NVML_NVLINK_VERSION_6_0 if key == "rubin" else nv.NVML_NVLINK_VERSION_5_0
    same("link version", nv.nvmlDeviceGetNvLinkVersion(handle, count - 1), expected)
    speed, state, version = nv.nvmlDeviceGetFieldValues(handle, [(f, count - 1) for f in (nv.NVML_FI_DEV_NVLINK_GET_SPEED, nv.NVML_FI_DEV_NVLINK_GET_STATE, nv.NVML_FI_DEV_NVLINK_GET_VERSION)])
    same("link fields", (speed.value.uiVal, state.value.uiVal, version.value.uiVal), (53125, 1, expected))
    fabric = nv.c_nvmlGpuFabricInfo_v3_t()
    nv.nvmlDeviceGetGpuFabricInfoV(handle, nv.byref(fabric))
    same("fabric state", fabric.state, nv.NVML_GPU_FABRIC_STATE_COMPLETED)
    same("fabric clique", fabric.cliqueId, {"rubin": 32766, "b200": 0, "gb200": 1}[key])
    same("fabric uuid is zero", bytes(fabric.clusterUuid) == bytes(16), key == "b200")
    same("fabric health", fabric.healthSummary, nv.NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY)
    v4 = nv.c_nvmlGpuFabricInfo_v4_t()
    nv.nvmlDeviceGetGpuFabricInfo_v4(handle, nv.byref(v4))
    same("fabric v4", (v4.state, v4.cliques[0].id, v4.healthSummary), (3, fabric.cliqueId, 1))


def monitoring(handle):
    same("gpm support", nv.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice, 1)
    samples = [nv.nvmlGpmSampleGet(handle, nv.nvmlGpmSampleAlloc()) for _ in range(2)]
    get = nv.c_nvmlGpmMetricsGet_t()
    get.version = nv.NVML_GPM_METRICS_GET_VERSION
    get.numMetrics = 2
    get.sample1, get.sample2 = samples
    get.metrics[0].metricId = nv.NVML_GPM_METRIC_SM_UTIL
    get.metrics[1].metricId = nv.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC
    nv.nvmlGpmMetricsGet(get)
    same("gpm", [(m.nvmlReturn, m.value, m.metricInfo.unit) for m in get.metrics[:2]], [(0, 0.0, b"%"), (0, 0.0, b"MiB/s")])
    for sample in samples:
        nv.nvmlGpmSampleFree(sample)
    events = nv.nvmlEventSetCreate()
    nv.nvmlDeviceRegisterEvents(handle, nv.nvmlEventTypeXidCriticalError, events)
    same("no event", raises(nv.NVML_ERROR_TIMEOUT, nv.nvmlEventSetWait_v2, events, 1), True)
    nv.nvmlEventSetFree(events)


def everything_exported(library):
    """Every call the client knows exists: a monitor never meets a missing symbol."""
    import ctypes
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', pathlib.Path(nv.__file__).read_text()))
    handle = ctypes.CDLL(library)
    missing = sorted(name for name in names if not hasattr(handle, name))
    same("calls of the client that are not exported", missing, [])


def agrees_with_shunt(shunt, handles):
    """`shunt devices` on the same box says the same, number by number."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SHUNT_")}
    done = subprocess.run([shunt, "devices", "--json"], capture_output=True, text=True, env=clean)
    same("shunt devices", (done.returncode, done.stderr), (0, ""))
    told = json.loads(done.stdout)
    same("shunt: driver", (told["driver"], told["cuda"]), (nv.nvmlSystemGetDriverVersion(), nv.nvmlSystemGetCudaDriverVersion()))
    same("shunt: devices", len(told["devices"]), len(handles))
    for entry in told["devices"]:
        handle = handles[entry["index"]]
        memory = nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2)
        low, high = nv.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        busy = nv.nvmlDeviceGetUtilizationRates(handle)
        for key, mine in {
            "uuid": nv.nvmlDeviceGetUUID(handle),
            "name": nv.nvmlDeviceGetName(handle),
            "pci": nv.nvmlDeviceGetPciInfo(handle).busId.lower(),
            "minor": nv.nvmlDeviceGetMinorNumber(handle),
            "compute_capability": "%d.%d" % tuple(nv.nvmlDeviceGetCudaComputeCapability(handle)),
            "addressing": ["none", "hmm", "ats"][nv.nvmlDeviceGetAddressingMode(handle)],
            "busy_percent": busy.gpu,
            "memory_busy_percent": busy.memory,
            "power_w": nv.nvmlDeviceGetPowerUsage(handle) / 1000,
            "power_limit_w": nv.nvmlDeviceGetPowerManagementLimit(handle) / 1000,
            "power_min_w": low / 1000,
            "power_max_w": high / 1000,
            "celsius": nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU),
            "margin_celsius": nv.nvmlDeviceGetMarginTemperature(handle),
            "sm_clock_mhz": nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_SM),
        }.items():
            same(f"shunt: {key}", entry[key].lower() if key == "pci" else entry[key], mine)
        same("shunt: memory", [entry["memory"][k] for k in ("total", "free", "used", "reserved")],
             [memory.total, memory.free, memory.used, memory.reserved])
        states = []
        try:
            while True:
                states.append(bool(nv.nvmlDeviceGetNvLinkState(handle, len(states))))
        except nv.NVMLError:
            pass
        same("shunt: links", [link["active"] for link in entry["links"]], states)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--shunt", required=True)
    arguments = parser.parse_args()
    library = arguments.library
    folder = str(pathlib.Path(library).resolve().parent)
    if os.environ.get("LD_LIBRARY_PATH", "").split(":")[0] != folder:  # read by the loader at start only
        os.environ["LD_LIBRARY_PATH"] = folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    os.environ.pop("SIMGPU_BOX", None)
    os.environ["SIMGPU_SPEC"] = ",".join(BOX)
    os.environ["SIMGPU_LINKS"] = "nvlink6"
    nv.nvmlInit()
    same("driver", nv.nvmlSystemGetDriverVersion(), "615.23")
    same("cuda", nv.nvmlSystemGetCudaDriverVersion(), 13000)
    same("count", nv.nvmlDeviceGetCount(), len(BOX))
    same("error text", str(nv.NVMLError(nv.NVML_ERROR_NOT_SUPPORTED)), "Not Supported")
    handles = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(len(BOX))]
    for handle, key in zip(handles, BOX):
        identity(handle, key)
        memory(handle, key)
        power(handle, key)
        links(handle, key)
        monitoring(handle)
    same("p2p", nv.nvmlDeviceGetP2PStatus(handles[0], handles[3], nv.NVML_P2P_CAPS_INDEX_NVLINK), nv.NVML_P2P_STATUS_OK)
    same("ancestor", nv.nvmlDeviceGetTopologyCommonAncestor(handles[0], handles[1]), nv.NVML_TOPOLOGY_NODE)
    everything_exported(library)
    agrees_with_shunt(arguments.shunt, handles)
    nv.nvmlShutdown()
    same("after shutdown", raises(nv.NVML_ERROR_UNINITIALIZED, nv.nvmlDeviceGetCount), True)
    print(f"{checks} checks, {failures} failed")
    return 1 if failures else 0


sys.exit(main())
