// Registry of live memory: device, managed, pinned host, registered host, reserved and mapped virtual ranges.
// Answers "which allocation holds this address" for any address inside. Entries do not overlap, except that
// VMM mappings lie inside their reservation (kept in a table of their own). Any thread; readers share, no
// lock across driver calls.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/spin.h"

namespace shunt::model {

enum class MemoryKind : uint8_t {
  device,
  pitched,
  async,
  pool,
  managed,
  host,
  registered,
  vmm_mapping,
  vmm_reservation
};

struct Allocation {
  uint64_t base = 0, bytes = 0;
  uint64_t id = 0;  // never reused: an address given out again has another id
  MemoryKind kind = MemoryKind::device;
  int device = -1;  // physical; -1 for host memory
  CUcontext context = nullptr;
  uint64_t stream_id = 0;  // allocation stream of async memory
  uint64_t handle = 0;     // pool, or VMM allocation handle
};

class Allocations {
 public:
  // Stores and numbers it. Entries it overlaps were freed behind our back (context teardown): they are
  // dropped.
  uint64_t insert(Allocation allocation);
  // Before the driver frees it: afterwards another thread may already own the address. nullopt: unknown base.
  std::optional<Allocation> detach(uint64_t base);
  // The free failed: put it back unless somebody else owns the range now.
  void restore(const Allocation& allocation);
  std::optional<Allocation> find(uint64_t address) const;
  std::optional<Allocation> find_id(uint64_t address, uint64_t id) const;
  // Everything overlapping [base, base + bytes).
  std::vector<Allocation> overlapping(uint64_t base, uint64_t bytes) const;
  // A destroyed context takes its device memory along (not memory of pools, which belongs to the device).
  size_t forget_context(CUcontext context);
  size_t size() const;
  uint64_t bytes_on(int device) const;
  uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }  // changes with every removal
  void reset_after_fork() { lock_.reset_after_fork(); }

 private:
  void drop_overlaps(uint64_t base, uint64_t bytes);
  mutable SpinRwLock lock_;
  std::map<uint64_t, Allocation> by_base_;
  std::atomic<uint64_t> next_id_{1}, generation_{1};
};

}  // namespace shunt::model
