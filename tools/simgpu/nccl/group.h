// ncclGroupStart/End: calls of a thread collected until the outermost end. Sends and receives on one
// communicator become one operation; several streams for one communicator wait for each other around it, as
// NCCL documents. Thread-local.
#pragma once
#include <functional>

#include "tools/simgpu/nccl/operation.h"

namespace simgpu::nccl {

ncclResult_t group_start();
ncclResult_t group_end();
bool in_group();
// Takes ownership. Outside a group it is submitted at once.
ncclResult_t enqueue(Operation* operation, CUstream stream);
// Work of a blocking initialisation: `begin` announces the rank, `complete` waits for the others.
ncclResult_t enqueue_init(std::function<ncclResult_t()> begin, std::function<ncclResult_t()> complete);

}  // namespace simgpu::nccl
