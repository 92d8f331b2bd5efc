// Who may touch a stream's buffer. Not a lock around the driver: it is the right to submit the stream's
// buffered work, and is kept until the driver has taken it, since order of submission has to be order of
// calls (docs/adr/0002). Whoever finds it taken by another thread waits, spinning first. Taking it again on
// the same thread fails instead of hanging: that happens only on the way out of an exception (kill switch).
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "runtime/model/thread_state.h"

namespace shunt::model {

class Gate {
 public:
  bool enter() {
    const uint32_t me = (static_cast<uint32_t>(model::this_thread().index) + 1) << 1;
    uint32_t free = 0;
    if (__builtin_expect(state_.compare_exchange_strong(free, me, std::memory_order_acquire), 1)) return true;
    return enter_slow(me);
  }
  void leave() {
    if (state_.exchange(0, std::memory_order_release) & kWaiters)
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }

 private:
  static constexpr uint32_t kWaiters = 1;
  bool enter_slow(uint32_t me) {
    for (int spins = 0;; ++spins) {
      uint32_t seen = state_.load(std::memory_order_relaxed);
      if (seen == 0) {
        if (state_.compare_exchange_weak(seen, spins > 200 ? me | kWaiters : me, std::memory_order_acquire))
          return true;
        continue;
      }
      if ((seen & ~kWaiters) == me) return false;
      if (spins < 200) {
        __builtin_ia32_pause();
        continue;
      }
      if (!(seen & kWaiters) &&
          !state_.compare_exchange_weak(seen, seen | kWaiters, std::memory_order_relaxed))
        continue;
      syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, seen | kWaiters, nullptr, nullptr, 0);
    }
  }
  std::atomic<uint32_t> state_{0};
};

class GateGuard {
 public:
  explicit GateGuard(Gate& g) : gate_(g), held_(g.enter()) {}
  ~GateGuard() { leave(); }
  GateGuard(const GateGuard&) = delete;
  bool held() const { return held_; }
  void leave() {
    if (held_) gate_.leave();
    held_ = false;
  }

 private:
  Gate& gate_;
  bool held_;
};

}  // namespace shunt::model
