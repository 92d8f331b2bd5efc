// NVML: power and its limits, clocks, temperature, why clocks are low.
#include <cmath>

#include "tools/simgpu/nvml/state.h"

using namespace simgpu::nvml;

namespace {

uint32_t milliwatts(double watts) { return static_cast<uint32_t>(std::lround(watts * 1000)); }

enum Clock : uint32_t { kGraphics = 0, kSm = 1, kMemoryClock = 2, kVideo = 3 };
constexpr uint32_t kIdleClock_mhz = 345;  // assumed: no figure in any source read

uint32_t max_clock(Device d, uint32_t type) {
  return static_cast<uint32_t>(type == kMemoryClock ? profile(d).memory_clock_mhz.value
                                                    : profile(d).sm_clock_mhz.value);
}

uint32_t current_clock(Device d, uint32_t type) {
  if (type == kMemoryClock) {
    uint32_t locked = state(d).locked_memory_clock_mhz;
    return locked ? locked : max_clock(d, type);
  }
  if (load(d).busy == 0) return kIdleClock_mhz;
  uint32_t locked = state(d).locked_sm_clock_mhz;
  double clock = locked ? locked : max_clock(d, type);
  // Dynamic power goes roughly with the cube of the clock once voltage follows it.
  double share = static_cast<double>(state(d).power_limit_mw) / 1000 / profile(d).power_default_w.value;
  if (share < 1) clock = std::min(clock, max_clock(d, type) * std::cbrt(share));
  return static_cast<uint32_t>(std::lround(clock));
}

constexpr unsigned long long kReasonIdle = 1, kReasonSettings = 2, kReasonPowerCap = 4;

}  // namespace

SIMGPU_NVML nvmlDeviceGetPowerUsage(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = milliwatts(power_watts(d));
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetTotalEnergyConsumption(Device d, unsigned long long* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = energy_mj(d);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPowerManagementMode(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 1;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPowerManagementLimit(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = static_cast<uint32_t>(state(d).power_limit_mw);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetEnforcedPowerLimit(Device d, uint32_t* out) {
  return nvmlDeviceGetPowerManagementLimit(d, out);
}
SIMGPU_NVML nvmlDeviceGetPowerManagementDefaultLimit(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = milliwatts(profile(d).power_default_w.value);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPowerManagementLimitConstraints(Device d, uint32_t* low, uint32_t* high) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(low && high);
  *low = milliwatts(profile(d).power_min_w.value);
  *high = milliwatts(profile(d).power_max_w.value);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceSetPowerManagementLimit(Device d, uint32_t limit) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(limit >= milliwatts(profile(d).power_min_w.value) &&
                      limit <= milliwatts(profile(d).power_max_w.value));
  SIMGPU_NVML_ROOT();
  state(d).power_limit_mw = limit;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceSetPowerManagementLimit_v2(Device d, const PowerValueV2* value) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(value);
  if (value->version != version_of<PowerValueV2>(2)) return kArgumentVersionMismatch;
  if (value->scope != 0) return kNotSupported;  // module, memory and base limits cannot be set here
  return nvmlDeviceSetPowerManagementLimit(d, value->milliwatts);
}

SIMGPU_NVML nvmlDeviceGetTemperature(Device d, uint32_t sensor, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && sensor == 0);
  *out = static_cast<uint32_t>(temperature_celsius(d));
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetTemperatureV(Device d, TemperatureV1* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (out->version != version_of<TemperatureV1>(1)) return kArgumentVersionMismatch;
  SIMGPU_NVML_REQUIRE(out->sensor == 0);
  out->celsius = temperature_celsius(d);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetTemperatureThreshold(Device d, uint32_t type, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && type <= 7);
  static constexpr uint32_t kCelsius[] = {92, 89, 95, 87};  // shutdown, slowdown, memory, operating; assumed
  if (type > 3) return kNotSupported;
  *out = kCelsius[type];
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMarginTemperature(Device d, VersionedValue* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (out->version != version_of<VersionedValue>(1)) return kArgumentVersionMismatch;
  out->value = 87 - temperature_celsius(d);
  return kSuccess;
}

SIMGPU_NVML nvmlDeviceGetClockInfo(Device d, uint32_t type, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && type <= kVideo);
  *out = current_clock(d, type);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMaxClockInfo(Device d, uint32_t type, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && type <= kVideo);
  *out = max_clock(d, type);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMaxCustomerBoostClock(Device d, uint32_t type, uint32_t* out) {
  return nvmlDeviceGetMaxClockInfo(d, type, out);
}
SIMGPU_NVML nvmlDeviceGetClock(Device d, uint32_t type, uint32_t id, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && type <= kVideo && id <= 3);
  *out = id == 0 ? current_clock(d, type) : max_clock(d, type);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetApplicationsClock(Device d, uint32_t type, uint32_t* out) {
  return nvmlDeviceGetMaxClockInfo(d, type, out);
}
SIMGPU_NVML nvmlDeviceGetDefaultApplicationsClock(Device d, uint32_t type, uint32_t* out) {
  return nvmlDeviceGetMaxClockInfo(d, type, out);
}
SIMGPU_NVML nvmlDeviceGetSupportedMemoryClocks(Device d, uint32_t* count, uint32_t* clocks) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(count);
  uint32_t room = *count;
  *count = 1;
  if (room < 1) return kInsufficientSize;
  SIMGPU_NVML_REQUIRE(clocks);
  clocks[0] = max_clock(d, kMemoryClock);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetSupportedGraphicsClocks(Device d, uint32_t memory_clock, uint32_t* count,
                                                 uint32_t* clocks) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(count);
  if (memory_clock != max_clock(d, kMemoryClock)) return kNotFound;
  constexpr uint32_t kStep_mhz = 15;
  uint32_t top = max_clock(d, kSm), room = *count;
  *count = (top - kIdleClock_mhz) / kStep_mhz + 1;
  if (room < *count) return kInsufficientSize;
  SIMGPU_NVML_REQUIRE(clocks);
  for (uint32_t i = 0; i < *count; ++i) clocks[i] = top - i * kStep_mhz;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceSetGpuLockedClocks(Device d, uint32_t low, uint32_t high) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(low <= high && high >= kIdleClock_mhz && low <= max_clock(d, kSm));
  SIMGPU_NVML_ROOT();
  state(d).locked_sm_clock_mhz = std::min(high, max_clock(d, kSm));
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceResetGpuLockedClocks(Device d) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_ROOT();
  state(d).locked_sm_clock_mhz = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceSetMemoryLockedClocks(Device d, uint32_t low, uint32_t high) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(low <= high && low <= max_clock(d, kMemoryClock));
  SIMGPU_NVML_ROOT();
  state(d).locked_memory_clock_mhz = std::min(high, max_clock(d, kMemoryClock));
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceResetMemoryLockedClocks(Device d) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_ROOT();
  state(d).locked_memory_clock_mhz = 0;
  return kSuccess;
}

SIMGPU_NVML nvmlDeviceGetCurrentClocksEventReasons(Device d, unsigned long long* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (load(d).busy == 0) {
    *out = kReasonIdle;
    return kSuccess;
  }
  *out = 0;
  if (state(d).locked_sm_clock_mhz != 0) *out |= kReasonSettings;
  if (static_cast<double>(state(d).power_limit_mw) < profile(d).power_default_w.value * 1000)
    *out |= kReasonPowerCap;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetCurrentClocksThrottleReasons(Device d, unsigned long long* out) {
  return nvmlDeviceGetCurrentClocksEventReasons(d, out);
}
SIMGPU_NVML nvmlDeviceGetSupportedClocksEventReasons(Device d, unsigned long long* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = kReasonIdle | kReasonSettings | kReasonPowerCap;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetSupportedClocksThrottleReasons(Device d, unsigned long long* out) {
  return nvmlDeviceGetSupportedClocksEventReasons(d, out);
}
SIMGPU_NVML nvmlDeviceGetPerformanceState(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPowerState(Device d, uint32_t* out) { return nvmlDeviceGetPerformanceState(d, out); }
SIMGPU_NVML nvmlDeviceGetViolationStatus(Device d, uint32_t policy, ViolationTime* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && policy < 12);
  // Only a power limit below the default holds clocks back here, and then for as long as the device was busy.
  bool capped =
      policy == 0 && static_cast<double>(state(d).power_limit_mw) < profile(d).power_default_w.value * 1000;
  *out = {box().merge_clock(0) / 1000, capped ? state(d).busy_ns.load() : 0};
  return kSuccess;
}
