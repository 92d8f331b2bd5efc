// NVML: which devices there are and what they are.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/simgpu/nvml/state.h"

using namespace simgpu::nvml;

SIMGPU_NVML nvmlDeviceGetCount_v2(uint32_t* count) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(count);
  *count = device_count();
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetCount(uint32_t* count) { return nvmlDeviceGetCount_v2(count); }

SIMGPU_NVML nvmlDeviceGetHandleByIndex_v2(uint32_t index, Device* device) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(device && index < device_count());
  *device = device_at(index);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetHandleByIndex(uint32_t index, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

namespace {

std::string serial(Device d) {
  char text[16];
  std::snprintf(text, sizeof text, "1650000%06d", d->box_device);
  return text;
}

template <class Match>
Return find(Device* device, Match matches) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(device);
  for (uint32_t i = 0; i < device_count(); ++i)
    if (matches(device_at(i))) {
      *device = device_at(i);
      return kSuccess;
    }
  return kNotFound;
}

}  // namespace

SIMGPU_NVML nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  SIMGPU_NVML_REQUIRE(uuid);
  return find(device, [&](Device d) { return box().uuid_string(d->box_device) == uuid; });
}
SIMGPU_NVML nvmlDeviceGetHandleByUUIDV(const Uuid* uuid, Device* device) {
  SIMGPU_NVML_REQUIRE(uuid && (uuid->type == 1 || uuid->type == 2));
  if (uuid->version != version_of<Uuid>(1)) return kArgumentVersionMismatch;
  return find(device, [&](Device d) {
    uint8_t bytes[16];
    box().uuid(d->box_device, bytes);
    if (uuid->type == 2) return std::memcmp(bytes, uuid->value.bytes, 16) == 0;
    return box().uuid_string(d->box_device) == std::string(uuid->value.text, strnlen(uuid->value.text, 41));
  });
}
SIMGPU_NVML nvmlDeviceGetHandleBySerial(const char* text, Device* device) {
  SIMGPU_NVML_REQUIRE(text);
  return find(device, [&](Device d) { return serial(d) == text; });
}

// "[domain:]bus:device.function" in hexadecimal, any number of leading zeros.
SIMGPU_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  SIMGPU_NVML_REQUIRE(id && device);
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  int end = -1;
  if (std::sscanf(id, "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &end) != 4) {
    domain = 0;
    end = -1;
    if (std::sscanf(id, "%x:%x.%x%n", &bus, &slot, &function, &end) != 3) return kInvalidArgument;
  }
  SIMGPU_NVML_REQUIRE(id[end] == 0);
  return find(device, [&](Device d) {
    return box().pci_domain(d->box_device) == domain && box().pci_bus(d->box_device) == bus && slot == 0 &&
           function == 0;
  });
}
SIMGPU_NVML nvmlDeviceGetHandleByPciBusId(const char* id, Device* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

SIMGPU_NVML nvmlDeviceGetIndex(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = d->index;
  return kSuccess;
}
// The device node follows the box's order, not NVML's: clients must not take one for the other.
SIMGPU_NVML nvmlDeviceGetMinorNumber(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = static_cast<uint32_t>(d->box_device);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetModuleId(Device d, uint32_t* out) { return nvmlDeviceGetMinorNumber(d, out); }
SIMGPU_NVML nvmlDeviceGetBoardId(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = box().pci_domain(d->box_device) << 16 | box().pci_bus(d->box_device) << 8;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMultiGpuBoard(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceOnSameBoard(Device a, Device b, int* out) {
  SIMGPU_NVML_CHECK(a);
  SIMGPU_NVML_CHECK(b);
  SIMGPU_NVML_REQUIRE(out);
  *out = a == b;
  return kSuccess;
}

SIMGPU_NVML nvmlDeviceGetName(Device d, char* out, uint32_t length) {
  SIMGPU_NVML_CHECK(d);
  return copy_text(std::string(profile(d).name), out, length);
}
SIMGPU_NVML nvmlDeviceGetUUID(Device d, char* out, uint32_t length) {
  SIMGPU_NVML_CHECK(d);
  return copy_text(box().uuid_string(d->box_device), out, length);
}
SIMGPU_NVML nvmlDeviceGetSerial(Device d, char* out, uint32_t length) {
  SIMGPU_NVML_CHECK(d);
  return copy_text(serial(d), out, length);
}
SIMGPU_NVML nvmlDeviceGetVbiosVersion(Device d, char* out, uint32_t length) {
  SIMGPU_NVML_CHECK(d);
  return copy_text("00.00.00.00.00", out, length);
}
SIMGPU_NVML nvmlDeviceGetBoardPartNumber(Device d, char* out, uint32_t length) {
  SIMGPU_NVML_CHECK(d);
  return copy_text("simgpu-" + std::string(profile(d).key), out, length);
}
SIMGPU_NVML nvmlDeviceGetBrand(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 14;  // NVIDIA
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetArchitecture(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = profile(d).nvml_architecture;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetCudaComputeCapability(Device d, int* major, int* minor) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(major && minor);
  *major = static_cast<int>(profile(d).cc_major);
  *minor = static_cast<int>(profile(d).cc_minor);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetNumGpuCores(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = static_cast<uint32_t>(profile(d).sm_count.value) *
         (profile(d).cc_major == 8 && profile(d).cc_minor == 0 ? 64 : 128);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetVirtualizationMode(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetDisplayMode(Device d, uint32_t* out) {
  return nvmlDeviceGetVirtualizationMode(d, out);
}
SIMGPU_NVML nvmlDeviceGetDisplayActive(Device d, uint32_t* out) {
  return nvmlDeviceGetVirtualizationMode(d, out);
}

namespace {
uint32_t combined_pci_id(Device d) { return profile(d).pci_device_id << 16 | 0x10DE; }
}  // namespace

SIMGPU_NVML nvmlDeviceGetPciInfo_v3(Device d, PciInfo* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = PciInfo{};
  out->domain = box().pci_domain(d->box_device);
  out->bus = box().pci_bus(d->box_device);
  out->pci_device_id = combined_pci_id(d);
  std::snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:00.0", out->domain & 0xFFFF,
                out->bus);
  std::snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:00.0", out->domain, out->bus);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPciInfo_v2(Device d, PciInfoV2* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  PciInfo info;
  if (const Return r = nvmlDeviceGetPciInfo_v3(d, &info); r != kSuccess) return r;
  *out = PciInfoV2{};
  std::memcpy(out->bus_id, info.bus_id_legacy, sizeof out->bus_id);
  out->domain = info.domain;
  out->bus = info.bus;
  out->pci_device_id = info.pci_device_id;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPciInfo(Device d, PciInfoV2* out) { return nvmlDeviceGetPciInfo_v2(d, out); }
SIMGPU_NVML nvmlDeviceGetPciInfoExt(Device d, PciInfoExt* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (out->version != version_of<PciInfoExt>(1)) return kArgumentVersionMismatch;
  uint32_t version = out->version;
  PciInfo info;
  if (const Return r = nvmlDeviceGetPciInfo_v3(d, &info); r != kSuccess) return r;
  *out = PciInfoExt{version, info.domain, info.bus, 0, info.pci_device_id, 0, 3, 2, {}};
  std::memcpy(out->bus_id, info.bus_id, sizeof out->bus_id);
  return kSuccess;
}

SIMGPU_NVML nvmlDeviceGetAddressingMode(Device d, VersionedValue* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (out->version != version_of<VersionedValue>(1)) return kArgumentVersionMismatch;
  out->value = profile(d).addressing == "ats" ? 2 : profile(d).addressing == "hmm" ? 1 : 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetC2cModeInfoV(Device d, VersionedValue* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (out->version != version_of<VersionedValue>(1)) return kArgumentVersionMismatch;
  out->value = box().spec().host_link[static_cast<size_t>(d->box_device)] == simgpu::LinkKind::c2c;
  return kSuccess;
}

// Multi-instance mode: the parts have it, nobody has switched it on.
SIMGPU_NVML nvmlDeviceGetMigMode(Device d, uint32_t* current, uint32_t* pending) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(current && pending);
  *current = *pending = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMaxMigDeviceCount(Device d, uint32_t* out) {
  return nvmlDeviceGetVirtualizationMode(d, out);
}
SIMGPU_NVML nvmlDeviceGetMigDeviceHandleByIndex(Device d, uint32_t, Device* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  return kNotFound;
}
SIMGPU_NVML nvmlDeviceIsMigDeviceHandle(Device d, uint32_t* out) {
  return nvmlDeviceGetVirtualizationMode(d, out);
}
// Documented for multi-instance handles only.
SIMGPU_NVML nvmlDeviceGetAttributes_v2(Device d, void* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  return kNotSupported;
}

SIMGPU_NVML nvmlDeviceGetPersistenceMode(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = state(d).persistence_mode;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceSetPersistenceMode(Device d, uint32_t mode) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(mode <= 1);
  SIMGPU_NVML_ROOT();
  state(d).persistence_mode = mode;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetComputeMode(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = state(d).compute_mode;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceSetComputeMode(Device d, uint32_t mode) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(mode == 0 || mode == 2 || mode == 3);
  SIMGPU_NVML_ROOT();
  state(d).compute_mode = mode;
  return kSuccess;
}
