// Spill: memory for a failed allocation from somewhere else than the device asked. Forms in order: host NUMA
// memory by the virtual memory API, then managed memory that prefers the host. Every form is undone
// completely when a step fails. The table knows what was spilled, so that frees and questions about it are
// answered as for ordinary device memory. Any thread; no lock across driver calls; leaked.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "runtime/base/reasons.h"
#include "runtime/base/spin.h"

namespace shunt::memory {

struct SpilledBlock {
  uint64_t base = 0, bytes = 0;  // what the program asked for
  uint64_t mapped_bytes = 0;     // what was reserved and mapped; 0: managed
  CUmemGenericAllocationHandle handle = 0;
  int device = -1;
  CUcontext context = nullptr;
};

class SpillTable {
 public:
  void insert(const SpilledBlock& block);
  // The block that holds the address, or null. Two loads while nothing is spilled.
  std::optional<SpilledBlock> find(uint64_t address) const;
  std::optional<SpilledBlock> take(uint64_t base);  // exact base; removes it
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }
  void fork_child() { lock_.reset_after_fork(); }

 private:
  static constexpr int kMost = 4096;
  mutable SpinRwLock lock_;
  std::atomic<int> count_{0};
  std::atomic<uint64_t> bytes_{0};
  SpilledBlock blocks_[kMost];
};

struct SpillLimits {
  bool capped = false;                     // `auto`: 10 % of device memory over C2C, 1 % over PCIe
  uint64_t most_bytes = 0;                 // --spill-max; 0: none
  uint64_t host_floor_bytes = 2ull << 30;  // MemAvailable stays above this
};

// Makes a block of `bytes` reachable from the device in the current context. None: `reason` says which form
// failed last.
std::optional<SpilledBlock> spill(uint64_t bytes, int device, CUcontext context, const SpillTable& table,
                                  const SpillLimits& limits, Reason& reason);
// Waits for the context's work, as the driver's own free does, and gives everything back.
CUresult release(const SpilledBlock& block);

uint64_t host_available_bytes();

}  // namespace shunt::memory
