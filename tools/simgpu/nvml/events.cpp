// NVML: events. A set remembers how many events each registered device had; waiting sleeps on the box's event
// word, so an Xid raised by any process of the box wakes it.
#include <time.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "tools/simgpu/nvml/state.h"

namespace simgpu::nvml {

struct EventSet {
  struct Watch {
    Device device;
    unsigned long long types;
    uint32_t seen;
  };
  std::mutex mutex;
  std::vector<Watch> watches;
};

namespace {

constexpr unsigned long long kXidEvent = 0x8, kDoubleBitEcc = 0x2, kUnavailable = 0x4000, kRecovery = 0x8000;
constexpr unsigned long long kSupported = kXidEvent | kDoubleBitEcc | kUnavailable | kRecovery;
constexpr uint32_t kXidDoubleBit = 48, kXidOffBus = 79;

unsigned long long type_of(uint32_t xid, unsigned long long wanted) {
  if (wanted & kXidEvent) return kXidEvent;
  if (xid == kXidDoubleBit) return wanted & kDoubleBitEcc;
  if (xid == kXidOffBus) return wanted & kUnavailable ? kUnavailable : wanted & kRecovery;
  return 0;
}

bool take(EventSet& set, EventData& out) {
  std::lock_guard lock(set.mutex);
  for (EventSet::Watch& watch : set.watches) {
    DeviceState& s = state(watch.device);
    uint32_t count = s.event_count.load(std::memory_order_acquire);
    while (watch.seen != count) {
      ++watch.seen;
      uint32_t xid = s.xid;
      unsigned long long type = type_of(xid, watch.types);
      if (type == 0) continue;
      out = {watch.device, type, xid, kNotAvailable, kNotAvailable};
      return true;
    }
  }
  return false;
}

uint64_t now_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000 + static_cast<uint64_t>(t.tv_nsec) / 1'000'000;
}

}  // namespace
}  // namespace simgpu::nvml

using namespace simgpu::nvml;

SIMGPU_NVML nvmlEventSetCreate(EventSet** out) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(out);
  *out = new EventSet;
  return kSuccess;
}
SIMGPU_NVML nvmlEventSetFree(EventSet* set) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(set);
  delete set;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetSupportedEventTypes(Device d, unsigned long long* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = kSupported;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceRegisterEvents(Device d, unsigned long long types, EventSet* set) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(set);
  if (types & ~kSupported) return kNotSupported;
  std::lock_guard lock(set->mutex);
  for (EventSet::Watch& watch : set->watches)
    if (watch.device == d) {
      watch.types |= types;
      return kSuccess;
    }
  set->watches.push_back({d, types, state(d).event_count.load()});
  return kSuccess;
}
SIMGPU_NVML nvmlEventSetWait_v2(EventSet* set, EventData* out, uint32_t timeout_ms) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(set && out);
  uint64_t deadline = now_ms() + timeout_ms;
  for (;;) {
    uint32_t word = box().event_word();
    if (take(*set, *out)) return kSuccess;
    uint64_t now = now_ms();
    if (now >= deadline) return kTimeout;
    box().wait_event(word, static_cast<uint32_t>(std::min<uint64_t>(deadline - now, 60'000)));
  }
}
SIMGPU_NVML nvmlEventSetWait(EventSet* set, EventDataV1* out, uint32_t timeout_ms) {
  SIMGPU_NVML_REQUIRE(out);
  EventData full{};
  Return rc = nvmlEventSetWait_v2(set, &full, timeout_ms);
  if (rc == kSuccess) *out = {full.device, full.type, full.data};
  return rc;
}
