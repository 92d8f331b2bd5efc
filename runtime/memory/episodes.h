// Episodes: what belongs to one run out of memory. Keyed by thread, device, call and rounded size; forgotten
// when the client's window has passed without a failure. Touched only when an allocation failed. Any thread.
#pragma once
#include <cstdint>

#include "runtime/base/spin.h"

namespace shunt::memory {

struct EpisodeKey {
  uint64_t thread;
  int32_t device;
  uint32_t kind;
  uint64_t size;  // rounded: clients retry with the same request, give or take alignment
  bool operator==(const EpisodeKey&) const = default;
};

class Episodes {
 public:
  // Notes a failure; the number of failures of this key within the window, this one included.
  uint32_t failed(const EpisodeKey& key, uint64_t now_ns, uint64_t window_ns);
  void forget(const EpisodeKey& key);
  static uint64_t round(uint64_t bytes);

 private:
  static constexpr int kSlots = 64;
  struct Slot {
    EpisodeKey key{};
    uint64_t last_ns = 0;
    uint32_t failures = 0;
  };
  SpinRwLock lock_;
  Slot slots_[kSlots];
};

}  // namespace shunt::memory
