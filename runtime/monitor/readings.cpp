#include "runtime/monitor/readings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace shunt::monitor {

using namespace nvml;

namespace {

// "GPU-6b0e7c2a-..." to bytes; false when it is not a GPU's UUID (a MIG instance's has another form).
bool parse_uuid(const std::string& text, std::array<uint8_t, 16>& out) {
  if (text.rfind("GPU-", 0) != 0) return false;
  size_t digits = 0;
  for (char c : text.substr(4)) {
    if (c == '-') continue;
    int v = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : -1;
    if (v < 0 || digits >= 32) return false;
    out[digits / 2] = static_cast<uint8_t>(out[digits / 2] << 4 | v);
    ++digits;
  }
  return digits == 32;
}

std::string text_of(Return (*function)(Handle, char*, uint32_t), Handle device) {
  char text[128] = {};
  if (!function || function(device, text, sizeof text - 1) != kSuccess) return "";
  return text;
}

std::optional<double> watts(std::optional<uint32_t> milliwatts) {
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1000.0;
}

std::optional<uint32_t> field(const Functions& f, Handle device, uint32_t id, uint32_t scope) {
  FieldValue value{};
  value.field_id = id;
  value.scope_id = scope;
  if (!f.nvmlDeviceGetFieldValues || f.nvmlDeviceGetFieldValues(device, 1, &value) != kSuccess)
    return std::nullopt;
  if (value.status != kSuccess) return std::nullopt;
  return value.value.ui;
}

}  // namespace

Identity read_identity(const Functions& f, Handle device, uint32_t index) {
  Identity out;
  out.nvml_index = index;
  out.minor = ask<uint32_t>(f.nvmlDeviceGetMinorNumber, device);
  out.uuid = text_of(f.nvmlDeviceGetUUID, device);
  parse_uuid(out.uuid, out.uuid_bytes);
  out.name = text_of(f.nvmlDeviceGetName, device);
  if (auto pci = ask<PciInfo>(f.nvmlDeviceGetPciInfo_v3, device)) {
    char text[32];
    std::snprintf(text, sizeof text, "%08x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
    out.pci_bus_id = text;
    if ((pci->pci_device_id & 0xFFFF) == 0x10DE) out.pci_device_id = pci->pci_device_id >> 16;
  }
  out.architecture = ask<uint32_t>(f.nvmlDeviceGetArchitecture, device).value_or(0);
  if (out.architecture == 0xFFFFFFFF) out.architecture = 0;
  int major = 0, minor = 0;
  if (try_call(f.nvmlDeviceGetCudaComputeCapability, device, &major, &minor) == kSuccess) {
    out.cc_major = static_cast<uint32_t>(major);
    out.cc_minor = static_cast<uint32_t>(minor);
  }
  out.profile = profiles::identify(out.pci_device_id, out.architecture, out.cc_major, out.cc_minor, out.name);
  VersionedValue mode{version_of<VersionedValue>(1), 0};
  if (try_call(f.nvmlDeviceGetAddressingMode, device, &mode) == kSuccess)
    out.addressing = mode.value == 2 ? Addressing::ats : mode.value == 1 ? Addressing::hmm : Addressing::none;
  out.numa_node = ask<uint32_t>(f.nvmlDeviceGetNumaNodeId, device);
  uint32_t current = 0, pending = 0;
  out.mig_enabled = try_call(f.nvmlDeviceGetMigMode, device, &current, &pending) == kSuccess && current == 1;
  return out;
}

std::optional<shunt::monitor::Memory> read_memory(const Functions& f, Handle device,
                                                  const Identity& identity) {
  Memory out;
  out.os_accounted = identity.addressing == Addressing::ats || identity.numa_node.has_value();
  MemoryV2 v2{};
  v2.version = version_of<MemoryV2>(2);
  if (try_call(f.nvmlDeviceGetMemoryInfo_v2, device, &v2) == kSuccess) {
    out.total = v2.total;
    out.free = v2.free;
    out.used = v2.used;
    out.reserved = v2.reserved;
    return out;
  }
  std::optional<MemoryV1> v1 = ask<MemoryV1>(f.nvmlDeviceGetMemoryInfo, device);
  if (!v1) return std::nullopt;
  out.total = v1->total;
  out.free = v1->free;
  out.used = v1->used;
  return out;
}

void read_load(const Functions& f, Handle device, Reading& out) {
  if (auto load = ask<Utilization>(f.nvmlDeviceGetUtilizationRates, device)) {
    out.busy_percent = load->gpu;
    out.memory_busy_percent = load->memory;
  }
  out.sm_clock_mhz = ask<uint32_t>(f.nvmlDeviceGetClockInfo, device, 1u);
  out.memory_clock_mhz = ask<uint32_t>(f.nvmlDeviceGetClockInfo, device, 2u);
  out.max_sm_clock_mhz = ask<uint32_t>(f.nvmlDeviceGetMaxClockInfo, device, 1u);
  auto reasons = f.nvmlDeviceGetCurrentClocksEventReasons ? f.nvmlDeviceGetCurrentClocksEventReasons
                                                          : f.nvmlDeviceGetCurrentClocksThrottleReasons;
  out.clock_reasons = ask<unsigned long long>(reasons, device);
  out.compute_mode = ask<uint32_t>(f.nvmlDeviceGetComputeMode, device);
}

void read_power(const Functions& f, Handle device, Reading& out) {
  Power& p = out.power;
  p.watts = watts(ask<uint32_t>(f.nvmlDeviceGetPowerUsage, device));
  p.limit_w = watts(ask<uint32_t>(f.nvmlDeviceGetEnforcedPowerLimit, device));
  p.default_limit_w = watts(ask<uint32_t>(f.nvmlDeviceGetPowerManagementDefaultLimit, device));
  uint32_t low = 0, high = 0;
  if (try_call(f.nvmlDeviceGetPowerManagementLimitConstraints, device, &low, &high) == kSuccess) {
    p.min_limit_w = watts(low);
    p.max_limit_w = watts(high);
  }
  p.base_limit_w = watts(field(f, device, kFieldBasePower, kScopeBasePower));
  p.energy_mj = ask<unsigned long long>(f.nvmlDeviceGetTotalEnergyConsumption, device);
  out.celsius = ask<uint32_t>(f.nvmlDeviceGetTemperature, device, 0u);
  VersionedValue margin{version_of<VersionedValue>(1), 0};
  if (try_call(f.nvmlDeviceGetMarginTemperature, device, &margin) == kSuccess)
    out.margin_celsius = margin.value;
}

void read_links(const Functions& f, Handle device, Reading& out) {
  // Header constants lag behind parts (18, then 36): the library itself says where the links end.
  for (uint32_t i = 0; f.nvmlDeviceGetNvLinkState && i < kMostLinks; ++i) {
    uint32_t active = 0;
    Return rc = f.nvmlDeviceGetNvLinkState(device, i, &active);
    if (rc == kInvalidArgument || rc == kNotSupported) break;
    Link link;
    if (rc == kSuccess) link.state = active ? LinkState::active : LinkState::inactive;
    if (link.state == LinkState::active) {
      link.speed_mbps = field(f, device, kFieldLinkSpeed, i);
      link.version = field(f, device, kFieldLinkVersion, i);
      if (!link.version) link.version = ask<uint32_t>(f.nvmlDeviceGetNvLinkVersion, device, i);
    }
    out.links.push_back(link);
  }
  out.pcie_generation = ask<uint32_t>(f.nvmlDeviceGetCurrPcieLinkGeneration, device);
  out.pcie_width = ask<uint32_t>(f.nvmlDeviceGetCurrPcieLinkWidth, device);
  FabricV2 fabric{};
  fabric.version = version_of<FabricV2>(2);
  if (try_call(f.nvmlDeviceGetGpuFabricInfoV, device, &fabric) == kSuccess) {
    out.fabric = Fabric{fabric.state, fabric.clique, fabric.health_mask, {}};
    std::memcpy(out.fabric->cluster.data(), fabric.cluster_uuid, 16);
  }
}

void read_health(const Functions& f, Handle device, Reading& out) {
  out.health.ecc_uncorrected = ask<unsigned long long>(f.nvmlDeviceGetTotalEccErrors, device, 1u, 0u);
  out.health.recovery_action = field(f, device, kFieldRecovery, 0);
}

std::vector<shunt::monitor::Process> read_processes(const Functions& f, Handle device, bool names) {
  auto list = f.nvmlDeviceGetComputeRunningProcesses_v3 ? f.nvmlDeviceGetComputeRunningProcesses_v3
                                                        : f.nvmlDeviceGetComputeRunningProcesses_v2;
  std::vector<nvml::ProcessInfo> raw;
  uint32_t count = 0;
  Return rc = try_call(list, device, &count, static_cast<nvml::ProcessInfo*>(nullptr));
  // Processes come and go between the two calls: leave room, and try a few times.
  for (int attempt = 0; rc == kInsufficientSize && attempt < 4; ++attempt) {
    raw.resize(count + 8);
    count = static_cast<uint32_t>(raw.size());
    rc = list(device, &count, raw.data());
  }
  std::vector<Process> out;
  if (rc != kSuccess) return out;
  for (uint32_t i = 0; i < count && i < raw.size(); ++i) {
    Process p;
    p.pid = raw[i].pid;
    if (raw[i].used_memory != ~0ull) p.bytes = raw[i].used_memory;
    if (names) {
      char path[40], text[256];
      std::snprintf(path, sizeof path, "/proc/%u/comm", p.pid);
      int fd = ::open(path, O_RDONLY | O_CLOEXEC);
      ssize_t n = fd >= 0 ? ::read(fd, text, sizeof text) : 0;
      if (fd >= 0) ::close(fd);
      if (n > 1) p.name.assign(text, static_cast<size_t>(n - 1));
    }
    out.push_back(std::move(p));
  }
  return out;
}

bool sees_host_pids() {
  // The initial pid namespace has a fixed inode number, part of the kernel's interface.
  constexpr ino_t kInitialPidNamespace = 0xEFFFFFFC;
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 && info.st_ino == kInitialPidNamespace;
}

}  // namespace shunt::monitor
