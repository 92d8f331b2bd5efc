// From CUPTI's records to the trace's. One instance, leaked; any thread may hand in a buffer.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/base/spin.h"

namespace shunt::trace::gpu {

struct Cupti;

class Records {
 public:
  struct Counts {
    uint64_t calls = 0, device = 0, unstamped = 0, unknown = 0;
  };
  explicit Records(const Cupti& cupti) : cupti_(cupti) {}
  // Every record of a buffer CUPTI gave back. Decisions are found first, so that work in the same buffer gets
  // its id whatever the order.
  void take(uint8_t* buffer, size_t bytes);
  Counts counts();

 private:
  // The newest external id of each slot: work arrives soon after its call. What comes too late to be found
  // here is still tied by the EXTERNAL record.
  static constexpr size_t kSlots = size_t{1} << 15;
  struct Slot {
    uint32_t correlation = 0;
    uint64_t external = 0;
  };
  void note(uint32_t correlation, uint64_t external);
  uint64_t external_of(uint32_t correlation);
  void write(const void* record, Counts& counts);

  const Cupti& cupti_;
  SpinRwLock lock_;
  Counts counts_;
  Slot slots_[kSlots];
};

}  // namespace shunt::trace::gpu
