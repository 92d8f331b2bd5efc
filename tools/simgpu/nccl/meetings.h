// The race detector's view of an operation. Ranks of one process meet in a collective: what follows one of
// them follows all. Each execution in flight is entered here under what the others know it by, and leaves
// with `forget`. Ranks in other processes are not met: the
// detector sees the memory of its own process only.
//
// Owner: the process (leaked). Threads: any; the driver's lock is taken inside. No effect while SIMGPU_RACES
// is off.
#pragma once
#include <cstdint>
#include <string>

#include "tools/simgpu/driver/private_api.h"

namespace simgpu::nccl {

// One posted part of an operation: a rank's share of a collective (peer -1), or one send or receive.
struct Place {
  std::string clique;
  uint64_t sequence = 0;
  int rank = 0, peer = -1;
  bool send = false;
  auto operator<=>(const Place&) const = default;
};

void enter(const Place& place, simgpu_op* op);
// `op` waits for the execution at `place` and that one for `op`; nothing when it belongs to another process.
void meet(simgpu_op* op, const Place& place);
void forget(simgpu_op* op);

}  // namespace simgpu::nccl
