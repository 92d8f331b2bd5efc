#include "runtime/overlap/pending.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shunt::overlap {

Pending* PendingPool::take() {
  Pending* p = nullptr;
  {
    WriteGuard guard(lock_);
    if (!free_.empty()) {
      p = free_.back();
      free_.pop_back();
    } else if (made_ < kMost) {
      p = new Pending();
      made_++;
      free_.reserve(made_);  // drop() never allocates
    }
  }
  if (!p) return nullptr;
  p->references.store(1, std::memory_order_relaxed);
  p->issued.store(0, std::memory_order_relaxed);
  p->footprint.clear();
  p->end = {};
  p->companion = nullptr;
  p->bytes = p->kind = p->owner = p->calls_before = 0;
  p->early = false;
  return p;
}

void PendingPool::drop(Pending* p) {
  if (p->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  events_.give(p->context, p->end);
  p->end = {};
  WriteGuard guard(lock_);
  free_.push_back(p);
}

void mark_issued(Pending& p) {
  p.issued.store(1, std::memory_order_release);
  syscall(SYS_futex, &p.issued, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void wait_issued(const Pending& p) {
  for (int spins = 0; p.issued.load(std::memory_order_acquire) == 0; ++spins) {
    if (spins < 200) {
      cpu_relax();
    } else {
      syscall(SYS_futex, &p.issued, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
  }
}

}  // namespace shunt::overlap
