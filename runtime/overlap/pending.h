// A collective that was moved and that some stream has not waited for yet. Counted by the streams and events
// that still stand in front of it; when the last lets go its event goes back to the pool. Taken from a pool
// that only grows. Any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/overlap/companion.h"
#include "runtime/overlap/footprint.h"

namespace shunt::overlap {

struct Pending {
  std::atomic<uint32_t> references{0};
  // 0 until NCCL has taken it and its end is recorded: nobody can wait for it before. A futex word.
  std::atomic<uint32_t> issued{0};
  Companion* companion = nullptr;
  uint64_t sequence = 0;  // on its companion
  OwnEvent end;
  Footprint footprint;
  uint64_t bytes = 0;
  // For what it gained: its kind (profit.h), and what its own stream had done when it was moved.
  uint64_t kind = 0, owner = 0, calls_before = 0;
  bool early = false;
  CUcontext context = nullptr;
};

class PendingPool {
 public:
  explicit PendingPool(Events& events) : events_(events) {}
  Pending* take();  // with one reference; null when there are too many
  void keep(Pending* p) { p->references.fetch_add(1, std::memory_order_relaxed); }
  void drop(Pending* p);
  size_t made() const { return made_; }
  void reset_after_fork() { lock_.reset_after_fork(); }

 private:
  static constexpr size_t kMost = 1 << 16;
  Events& events_;
  SpinRwLock lock_;
  std::vector<Pending*> free_;
  size_t made_ = 0;
};

// Wakes whoever waits / waits until another thread's NCCL call has returned.
void mark_issued(Pending& p);
void wait_issued(const Pending& p);

}  // namespace shunt::overlap
