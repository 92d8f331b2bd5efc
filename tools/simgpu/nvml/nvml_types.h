// What of NVML's documented interface simgpu implements: handles, codes and structures, written from the
// public documentation (layouts judged against the nvidia-ml-py package by tests/nvml). No behaviour here.
#pragma once
#include <cstdint>

namespace simgpu::nvml {

struct DeviceHandle;
using Device = const DeviceHandle*;
struct EventSet;
struct GpmSample;

enum Return : uint32_t {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kOperatingSystem = 17,
  kMemory = 20,
  kNoData = 21,
  kArgumentVersionMismatch = 25,
  kUnknown = 999,
};

// A versioned structure starts with its size and version number in one word.
template <class T>
constexpr uint32_t version_of(uint32_t number) {
  return static_cast<uint32_t>(sizeof(T)) | number << 24;
}

constexpr uint32_t kMaxLinks = 36;
constexpr uint32_t kNotAvailable = 0xFFFFFFFF;

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  uint32_t version;
  unsigned long long total, reserved, free, used;
};
struct Bar1Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  uint32_t gpu, memory;
};
struct PciInfoV2 {
  char bus_id[16];
  uint32_t domain, bus, device, pci_device_id, pci_subsystem_id, reserved[4];
};
struct PciInfo {
  char bus_id_legacy[16];
  uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct PciInfoExt {
  uint32_t version, domain, bus, device, pci_device_id, pci_subsystem_id, base_class, sub_class;
  char bus_id[32];
};
struct ProcessInfoV1 {
  uint32_t pid;
  unsigned long long used_memory;
};
struct ProcessInfo {
  uint32_t pid;
  unsigned long long used_memory;
  uint32_t gpu_instance, compute_instance;
};
struct ProcessDetail {
  uint32_t pid;
  unsigned long long used_memory;
  uint32_t gpu_instance, compute_instance;
  unsigned long long protected_memory;
};
struct ProcessDetailList {
  uint32_t version, mode, count;
  ProcessDetail* entries;
};
union ValueUnion {
  double d;
  uint32_t ui;
  unsigned long ul;
  unsigned long long ull;
  long long sll;
  int si;
  uint16_t us;
};
enum ValueType : uint32_t { kDouble = 0, kUnsignedInt = 1, kUnsignedLong = 2, kUnsignedLongLong = 3 };
struct FieldValue {
  uint32_t field_id, scope_id;
  int64_t timestamp, latency_us;
  uint32_t value_type, status;
  ValueUnion value;
};
struct Sample {
  unsigned long long timestamp;
  ValueUnion value;
};
struct ViolationTime {
  unsigned long long reference_time, violation_time;
};
struct EccErrorCounts {
  unsigned long long l1, l2, device_memory, register_file;
};
struct EventData {
  Device device;
  unsigned long long type, data;
  uint32_t gpu_instance, compute_instance;
};
struct EventDataV1 {
  Device device;
  unsigned long long type, data;
};
struct FabricInfo {
  uint8_t cluster_uuid[16];
  uint32_t status, clique, state;
};
struct FabricInfoV2 {
  uint32_t version;
  uint8_t cluster_uuid[16];
  uint32_t status, clique, state, health_mask;
};
struct FabricInfoV3 {
  uint32_t version;
  uint8_t cluster_uuid[16];
  uint32_t status, clique, state, health_mask;
  uint8_t health_summary;
};
struct FabricClique {
  uint8_t type;
  uint32_t id;
};
struct FabricInfoV4 {
  uint8_t cluster_uuid[16];
  uint32_t status;
  FabricClique cliques[64];
  uint32_t clique_count;
  uint8_t state;
  uint32_t health_mask;
  uint8_t health_summary;
};
struct VersionedValue {  // addressing mode, C2C mode, margin temperature: one number behind the version
  uint32_t version;
  int32_t value;
};
struct TemperatureV1 {
  uint32_t version, sensor;
  int32_t celsius;
};
struct PowerValueV2 {
  uint32_t version, scope, milliwatts;
};
struct Uuid {
  uint32_t version, type;
  union {
    char text[41];
    uint8_t bytes[16];
  } value;
};
struct DriverBranch {
  uint32_t version;
  char branch[80];
};
struct GpmMetric {
  uint32_t id, status;
  double value;
  struct {
    const char *short_name, *long_name, *unit;
  } info;
};
struct GpmMetricsGet {
  uint32_t version, count;
  const GpmSample *sample1, *sample2;
  GpmMetric metrics[1];  // as many as `count` says; the documented array grows with every release
};
struct GpmSupport {
  uint32_t version, supported;
};
struct RowRemapperHistogram {
  uint32_t max, high, partial, low, none;
};
struct PStateInfo {
  uint32_t flags;
  struct {
    uint32_t present, percentage, increase_threshold, decrease_threshold;
  } utilization[8];
};

}  // namespace simgpu::nvml
