#include "runtime/memory/episodes.h"

#include <bit>

namespace shunt::memory {

uint64_t Episodes::round(uint64_t bytes) {
  // To an eighth of the next power of two: the same request with another alignment is the same episode.
  if (bytes < 4096) return 4096;
  const uint64_t step = std::bit_ceil(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

uint32_t Episodes::failed(const EpisodeKey& key, uint64_t now_ns, uint64_t window_ns) {
  lock_.lock();
  Slot* oldest = &slots_[0];
  Slot* slot = nullptr;
  for (Slot& s : slots_) {
    if (s.failures && s.key == key) slot = &s;
    if (s.last_ns < oldest->last_ns) oldest = &s;
  }
  if (!slot) slot = oldest, slot->key = key, slot->failures = 0;
  if (slot->failures && now_ns - slot->last_ns > window_ns) slot->failures = 0;
  slot->last_ns = now_ns;
  const uint32_t n = ++slot->failures;
  lock_.unlock();
  return n;
}

void Episodes::forget(const EpisodeKey& key) {
  lock_.lock();
  for (Slot& s : slots_) {
    if (s.failures && s.key == key) s.failures = 0;
  }
  lock_.unlock();
}

}  // namespace shunt::memory
