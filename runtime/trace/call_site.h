// Where in the program a decision comes from. The hook notes the return address of the program's call; the
// first decision of a (feature, return address) pair walks the stack, later ones look the number up. Frames
// are stored as (module, offset) and named offline by build id (shunt trace report). libunwind is loaded with
// RTLD_LOCAL, so that the program never sees its symbols; without it a site is its return address alone. Any
// thread.
#pragma once
#include <atomic>
#include <cstdint>

#include "runtime/trace/decision.h"

namespace shunt::trace {

namespace detail {
extern thread_local const void* caller __attribute__((tls_model("initial-exec")));
extern std::atomic<bool> call_sites_on;
uint32_t call_site(Feature feature, const void* return_address);
}  // namespace detail

void start_call_sites(bool enabled);
// What the program's call returns to; set by each hook, so that helpers, which make no such call, have none.
inline void note_caller(const void* return_address) { detail::caller = return_address; }
inline const void* caller() { return detail::caller; }
// Number of the STACK record; 0: no call of the program is being answered, or call sites are off.
inline uint32_t call_site(Feature feature) {
  if (!detail::caller || !detail::call_sites_on.load(std::memory_order_relaxed)) return 0;
  return detail::call_site(feature, detail::caller);
}

}  // namespace shunt::trace
