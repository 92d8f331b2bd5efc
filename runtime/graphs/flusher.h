// Bounds the age of a buffered launch for programs that watch memory without calling the driver: a helper
// thread that ticks while there is something to watch, and sleeps otherwise. Starts with the first
// executable; leaked.
#pragma once
#include <atomic>
#include <cstdint>

namespace shunt::graphs {

class GraphsLink;

class Flusher {
 public:
  explicit Flusher(GraphsLink& link) : link_(link) {}
  bool begin();  // idempotent; false: there is no thread, nothing may be held back
  // On the way of a buffered launch: one load unless the thread sleeps.
  void notice() {
    if (__builtin_expect(asleep_.load(std::memory_order_acquire) != 0, 0)) wake();
  }

 private:
  void wake();
  void work();
  GraphsLink& link_;
  std::atomic<uint32_t> asleep_{0};
  std::atomic<bool> begun_{false};
};

}  // namespace shunt::graphs
