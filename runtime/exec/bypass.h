// Launches that no engine wants to hear of for a while go from the hook straight to the driver: what a stream
// costs that an engine has given up on. The engine grants a number of launches of one stream to the calling
// thread; the grant holds only while nothing is held back anywhere, since then no order could be broken. A
// launch that fails comes the long way after all, with the code it got. Any thread.
#pragma once
#include <atomic>
#include <cstdint>

#include "runtime/model/thread_state.h"

namespace shunt::exec {

namespace detail {
extern std::atomic<uint32_t> g_holding;  // streams with held-back work, over all engines
extern std::atomic<bool> g_may_bypass;   // every link of the chain agrees (Link::sees_launches)
}  // namespace detail

// By a link that holds work back, for each stream, before the first call is held and after the last is out.
inline void holding(bool begins) {
  begins ? detail::g_holding.fetch_add(1, std::memory_order_acq_rel)
         : detail::g_holding.fetch_sub(1, std::memory_order_acq_rel);
}

inline bool anything_held() { return detail::g_holding.load(std::memory_order_acquire) != 0; }

// The stream as the program names it. False: some link needs to see launches.
inline bool grant_bypass(uint64_t stream, uint32_t launches) {
  if (!detail::g_may_bypass.load(std::memory_order_relaxed)) return false;
  model::ThreadState& t = model::this_thread();
  t.bypass_stream = stream;
  t.bypass_left = launches;
  return true;
}

inline bool takes_bypass(uint64_t stream) {
  model::ThreadState* t = model::detail::thread_state;
  if (t == nullptr || t->bypass_left == 0 || t->bypass_stream != stream) return false;
  if (anything_held()) return false;
  --t->bypass_left;
  return true;
}

}  // namespace shunt::exec
