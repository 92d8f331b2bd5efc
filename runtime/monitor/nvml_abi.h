// The part of NVML's documented interface the monitor uses: own minimal declarations, since the header is
// often absent beside a toolkit and differs between releases. Every function is optional; every versioned
// structure says its size.
#pragma once
#include <cstdint>

namespace shunt::monitor::nvml {

using Return = uint32_t;
using Handle = void*;
using EventSet = void*;
using GpmSample = void*;

constexpr Return kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kInsufficientSize = 7, kTimeout = 10;
constexpr uint32_t kMostLinks =
    64;  // beyond what any part has (36): the loop ends at the first refused number

template <class T>
constexpr uint32_t version_of(uint32_t number) {
  return static_cast<uint32_t>(sizeof(T)) | number << 24;
}

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  uint32_t version;
  unsigned long long total, reserved, free, used;
};
struct Utilization {
  uint32_t gpu, memory;
};
struct PciInfo {
  char bus_id_legacy[16];
  uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct ProcessInfo {  // second and third form of the running-process calls
  uint32_t pid;
  unsigned long long used_memory;
  uint32_t gpu_instance, compute_instance;
};
union Value {
  double d;
  uint32_t ui;
  unsigned long ul;
  unsigned long long ull;
  long long sll;
};
struct FieldValue {
  uint32_t field_id, scope_id;
  int64_t timestamp, latency_us;
  uint32_t value_type, status;
  Value value;
};
struct Event {
  Handle device;
  unsigned long long type, data;
  uint32_t gpu_instance, compute_instance;
};
struct FabricV2 {
  uint32_t version;
  uint8_t cluster_uuid[16];
  uint32_t status, clique, state, health_mask;
};
struct VersionedValue {  // addressing mode, margin temperature
  uint32_t version;
  int32_t value;
};
struct GpmSupport {
  uint32_t version, supported;
};
struct GpmMetric {
  uint32_t id, status;
  double value;
  const char *short_name, *long_name, *unit;
};
constexpr uint32_t kGpmMetricRoom =
    512;  // the documented array's length grows with releases; only `count` is read
struct GpmMetrics {
  uint32_t version, count;
  GpmSample sample1, sample2;
  GpmMetric metrics[kGpmMetricRoom];
};

// Field numbers and bits are guaranteed never to change.
constexpr uint32_t kFieldLinkSpeed = 164, kFieldLinkVersion = 166, kFieldBasePower = 190,
                   kFieldRecovery = 230;
constexpr uint32_t kScopeBasePower = 3;
constexpr unsigned long long kEventXid = 0x8, kEventDoubleBit = 0x2, kEventUnavailable = 0x4000,
                             kEventRecovery = 0x8000;
constexpr uint32_t kGpmSm = 2, kGpmTensor = 5, kGpmDram = 10, kGpmPcieTx = 20, kGpmPcieRx = 21,
                   kGpmNvlinkRx = 60, kGpmNvlinkTx = 61;

}  // namespace shunt::monitor::nvml
