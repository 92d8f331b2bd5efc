// One NCCL operation on its way: what was asked, and how it is carried out inside a stream by the driver's
// scheduler.
#pragma once
#include <vector>

#include "tools/simgpu/nccl/comm.h"
#include "tools/simgpu/nccl/types.h"

namespace simgpu::nccl {

enum class Function : uint32_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  recv
};
const char* function_name(Function f);

struct Transfer {  // one send or receive of a work
  Function function{};
  int peer = 0;
  uint64_t address = 0, bytes = 0, sequence = 0;
  Signature signature;
};

// A collective, or all sends and receives of a group on one communicator (they progress together).
struct Operation {
  ncclComm* comm = nullptr;
  Function function{};
  uint64_t in = 0, out = 0, in_bytes = 0, out_bytes = 0;
  uint64_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int op = ncclSum, root = 0;
  Standing standing;
  // Place in the communicator's order, taken when submitted; a captured operation takes one at each
  // execution.
  bool captured = false;
  uint64_t sequence = 0;
  std::vector<Transfer> transfers;  // non-empty: point to point
  // What the choice of the algorithm goes by: with others of its group, all their bytes.
  uint64_t group_bytes = 0;
  uint64_t choice_bytes() const {
    return group_bytes ? group_bytes : in_bytes > out_bytes ? in_bytes : out_bytes;
  }
};

// Gives the operation its place in the communicator's order and hands it to the stream.
ncclResult_t submit(Operation* operation, CUstream stream);

}  // namespace simgpu::nccl
