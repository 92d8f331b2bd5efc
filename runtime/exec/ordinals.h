// The process's map of device ordinals (in-process form of placement P1). Unbound until the first
// device-specific call after cuInit; then fixed for the life of the process. While it is the identity nothing
// is translated. Any thread.
#pragma once
#include <atomic>

#include "runtime/placement/ordinal_map.h"

namespace shunt::exec {

namespace detail {
extern std::atomic<const placement::OrdinalMap*> ordinal_map;  // null: identity
extern std::atomic<bool> ordinals_unbound;                     // true: the next device call decides
void bind_ordinals_slow();
}  // namespace detail

// Decides once, if placement is waiting for it. Makes driver calls (device queries only), holds no lock while
// it does.
inline void bind_ordinals() {
  if (__builtin_expect(detail::ordinals_unbound.load(std::memory_order_acquire), 0))
    detail::bind_ordinals_slow();
}
inline const placement::OrdinalMap* ordinals() { return detail::ordinal_map.load(std::memory_order_acquire); }

}  // namespace shunt::exec
