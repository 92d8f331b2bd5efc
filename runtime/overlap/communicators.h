// What is known of NCCL communicators: who they are, whether their work may be moved, how often each kind of
// call was made. Filled by the NCCL hooks; infos are never freed, a destroyed one is only forgotten (its
// handle may come back). Any thread; no lock is held across a call.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/base/spin.h"
#include "runtime/overlap/operation.h"

namespace shunt::overlap {

struct CommInfo {
  nccl::Comm handle = nullptr;
  uint64_t generation = 0;
  int ranks = 0, rank = -1;
  std::atomic<CUcontext> context{nullptr};  // learned from its first ordinary stream where it was not said
  bool blocking = true;
  std::atomic<bool> poisoned{false};  // failed, aborted, revoked, finalised, or with symmetric windows
};

class Communicators {
 public:
  // `blocking` as the configuration says; asks NCCL for size and rank.
  void created(nccl::Comm comm, bool blocking, CUcontext context);
  void forget(nccl::Comm comm);
  CommInfo* find(nccl::Comm comm);
  // A kind of call: communicator, function, size class.
  static uint64_t kind_of(const CommInfo& comm, nccl::Function function, uint64_t bytes);
  // How often it was made before; counts it.
  uint32_t note_use(uint64_t kind);

  // Operators made by the program. A scalar on the device is read while the operation runs.
  void operator_created(nccl::Comm comm, nccl::Operator op, uint64_t device_scalar, uint64_t bytes);
  // False: an operator nobody saw being made. Adds what it reads. A destroyed one stays known: work that was
  // issued with it goes on, and numbers are the program's to reuse.
  bool operator_reads(const Operation& o, Footprint& footprint);

  void reset_after_fork();

 private:
  struct Scalar {
    uint64_t address = 0, bytes = 0;
  };
  SpinRwLock lock_;
  FlatMap<CommInfo*> comms_;
  FlatMap<uint32_t> uses_;
  FlatMap<Scalar> operators_;
  std::atomic<uint64_t> next_generation_{1};
};

}  // namespace shunt::overlap
