// Small locks for sections of a few dozen instructions; never held across a driver call, a system call or an
// allocation that may be large. Both are constant-initialised and survive fork (reset_after_fork).
#pragma once
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace shunt {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Readers share, a writer excludes. Writers do not starve: a waiting writer stops new readers.
class SpinRwLock {
 public:
  void lock_shared() {
    for (uint32_t spins = 0;; spins++) {
      uint32_t state = state_.load(std::memory_order_relaxed);
      if (!(state & kWriter) && state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                                             std::memory_order_relaxed))
        return;
      wait(spins);
    }
  }
  void unlock_shared() { state_.fetch_sub(1, std::memory_order_release); }
  void lock() {
    for (uint32_t spins = 0; state_.fetch_or(kWriter, std::memory_order_acquire) & kWriter; spins++)
      wait(spins);
    for (uint32_t spins = 0; state_.load(std::memory_order_acquire) != kWriter; spins++) wait(spins);
  }
  void unlock() { state_.fetch_and(~kWriter, std::memory_order_release); }
  // Only in a fork child, where the other threads that might have held it are gone.
  void reset_after_fork() { state_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kWriter = 0x8000'0000;
  static void wait(uint32_t spins) {
    if (spins % 64 == 63)
      sched_yield();
    else
      cpu_relax();
  }
  std::atomic<uint32_t> state_{0};
};

class SharedGuard {
 public:
  explicit SharedGuard(SpinRwLock& lock) : lock_(lock) { lock_.lock_shared(); }
  ~SharedGuard() { lock_.unlock_shared(); }
  SharedGuard(const SharedGuard&) = delete;
  SharedGuard& operator=(const SharedGuard&) = delete;

 private:
  SpinRwLock& lock_;
};

class WriteGuard {
 public:
  explicit WriteGuard(SpinRwLock& lock) : lock_(lock) { lock_.lock(); }
  ~WriteGuard() { lock_.unlock(); }
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

 private:
  SpinRwLock& lock_;
};

}  // namespace shunt
