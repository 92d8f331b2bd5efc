// NVML: memory, utilisation, processes, ECC.
#include <cmath>

#include "tools/simgpu/nvml/state.h"

using namespace simgpu::nvml;

SIMGPU_NVML nvmlDeviceGetMemoryInfo_v2(Device d, MemoryV2* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (out->version != version_of<MemoryV2>(2)) return kArgumentVersionMismatch;
  out->total = spec(d).memory_bytes;
  out->reserved = state(d).reserved_bytes;
  out->free = box().free_bytes(d->box_device);
  out->used = out->total - out->reserved - out->free;
  return kSuccess;
}
// The first form has no line for what the driver keeps, so it counts as used.
SIMGPU_NVML nvmlDeviceGetMemoryInfo(Device d, Memory* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  out->total = spec(d).memory_bytes;
  out->free = box().free_bytes(d->box_device);
  out->used = out->total - out->free;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetBAR1MemoryInfo(Device d, Bar1Memory* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  uint64_t size = 1;
  while (size < spec(d).memory_bytes) size <<= 1;
  *out = {size, size - (1 << 20), 1 << 20};
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMemoryBusWidth(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = static_cast<uint32_t>(profile(d).memory_bus_bits.value);
  return kSuccess;
}

SIMGPU_NVML nvmlDeviceGetUtilizationRates(Device d, Utilization* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  Load now = load(d);
  *out = {static_cast<uint32_t>(std::lround(100 * now.busy)),
          static_cast<uint32_t>(std::lround(100 * now.dram))};
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetDynamicPstatesInfo(Device d, PStateInfo* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  Load now = load(d);
  *out = PStateInfo{};
  out->utilization[0] = {1, static_cast<uint32_t>(std::lround(100 * now.busy)), 0, 0};
  out->utilization[1] = {1, static_cast<uint32_t>(std::lround(100 * now.dram)), 0, 0};
  return kSuccess;
}

namespace {

// The two-call form: a buffer that is too small is told the number and refused.
template <class Entry, class Fill>
Return list_processes(Device d, uint32_t* count, Entry* out, Fill fill) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(count && (out || *count == 0));
  auto list = box().processes(d->box_device);
  uint32_t room = *count;
  *count = static_cast<uint32_t>(list.size());
  if (list.size() > room) return kInsufficientSize;
  for (size_t i = 0; i < list.size(); ++i) out[i] = fill(list[i]);
  return kSuccess;
}

}  // namespace

SIMGPU_NVML nvmlDeviceGetComputeRunningProcesses_v3(Device d, uint32_t* count, ProcessInfo* out) {
  return list_processes(d, count, out, [](const simgpu::Box::ProcessUse& use) {
    return ProcessInfo{use.pid, use.bytes, kNotAvailable, kNotAvailable};
  });
}
SIMGPU_NVML nvmlDeviceGetComputeRunningProcesses_v2(Device d, uint32_t* count, ProcessInfo* out) {
  return nvmlDeviceGetComputeRunningProcesses_v3(d, count, out);
}
SIMGPU_NVML nvmlDeviceGetComputeRunningProcesses(Device d, uint32_t* count, ProcessInfoV1* out) {
  return list_processes(d, count, out, [](const simgpu::Box::ProcessUse& use) {
    return ProcessInfoV1{use.pid, use.bytes};
  });
}
SIMGPU_NVML nvmlDeviceGetRunningProcessDetailList(Device d, ProcessDetailList* list) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(list && list->mode <= 3);
  if (list->version != version_of<ProcessDetailList>(1)) return kArgumentVersionMismatch;
  if (list->mode == 1 || list->mode == 2) {  // graphics, MPS
    list->count = 0;
    return kSuccess;
  }
  return list_processes(d, &list->count, list->entries, [](const simgpu::Box::ProcessUse& use) {
    return ProcessDetail{use.pid, use.bytes, kNotAvailable, kNotAvailable, 0};
  });
}

namespace {
Return no_processes(Device d, uint32_t* count) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(count);
  *count = 0;
  return kSuccess;
}
}  // namespace
SIMGPU_NVML nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, uint32_t* count, void*) {
  return no_processes(d, count);
}
SIMGPU_NVML nvmlDeviceGetGraphicsRunningProcesses_v2(Device d, uint32_t* count, void*) {
  return no_processes(d, count);
}
SIMGPU_NVML nvmlDeviceGetGraphicsRunningProcesses(Device d, uint32_t* count, void*) {
  return no_processes(d, count);
}
SIMGPU_NVML nvmlDeviceGetMPSComputeRunningProcesses_v3(Device d, uint32_t* count, void*) {
  return no_processes(d, count);
}
SIMGPU_NVML nvmlDeviceGetMPSComputeRunningProcesses_v2(Device d, uint32_t* count, void*) {
  return no_processes(d, count);
}
SIMGPU_NVML nvmlDeviceGetMPSComputeRunningProcesses(Device d, uint32_t* count, void*) {
  return no_processes(d, count);
}

SIMGPU_NVML nvmlDeviceGetEccMode(Device d, uint32_t* current, uint32_t* pending) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(current && pending);
  *current = *pending = 1;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetDefaultEccMode(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 1;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetTotalEccErrors(Device d, uint32_t type, uint32_t counter, unsigned long long* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && type <= 1 && counter <= 1);
  *out = type == 0 ? state(d).ecc_corrected : state(d).ecc_uncorrected;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetDetailedEccErrors(Device d, uint32_t type, uint32_t counter, EccErrorCounts* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && type <= 1 && counter <= 1);
  *out = {0, 0, type == 0 ? state(d).ecc_corrected.load() : state(d).ecc_uncorrected.load(), 0};
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMemoryErrorCounter(Device d, uint32_t type, uint32_t counter, uint32_t location,
                                            unsigned long long* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && type <= 1 && counter <= 1 && location <= 7);
  *out = location != 2 ? 0 : type == 0 ? state(d).ecc_corrected.load() : state(d).ecc_uncorrected.load();
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceClearEccErrorCounts(Device d, uint32_t counter) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(counter <= 1);
  SIMGPU_NVML_ROOT();
  state(d).ecc_corrected = 0;
  state(d).ecc_uncorrected = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetRemappedRows(Device d, uint32_t* corrected, uint32_t* uncorrected, uint32_t* pending,
                                      uint32_t* failed) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(corrected && uncorrected && pending && failed);
  *corrected = *uncorrected = *pending = *failed = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetRowRemapperHistogram(Device d, RowRemapperHistogram* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = {static_cast<uint32_t>(profile(d).memory_bus_bits.value / 8), 0, 0, 0, 0};
  return kSuccess;
}
