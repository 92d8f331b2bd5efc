// ncclGroupStart/End: calls of a thread collected until the outermost end. Sends and receives on one
// communicator become one operation; several streams for one communicator wait for each other around it, as
// NCCL documents. Thread-local.
#pragma once
#include <functional>
#include <vector>

#include "tools/simgpu/nccl/operation.h"

namespace simgpu::nccl {

ncclResult_t group_start();
ncclResult_t group_end();
bool in_group();
// Takes ownership. Outside a group it is submitted at once.
ncclResult_t enqueue(Operation* operation, CUstream stream);
// An initialisation in steps. In a group every member takes a step before anybody takes the next, so that one
// thread can announce all its ranks before it waits for any. `waiter` reports progress: when it is
// non-blocking, a thread does the work and the answer is ncclInProgress.
using Steps = std::vector<std::function<ncclResult_t()>>;
ncclResult_t enqueue_init(ncclComm* waiter, Steps steps);
// A refused call inside a group makes the whole group fail with its code. Returns `result`.
ncclResult_t refuse(ncclResult_t result);
// Operations of a non-blocking communicator wait here until somebody polls ncclCommGetAsyncError: what a
// program does before that, it does without knowing whether they are in the stream.
void submit_deferred(ncclComm* comm);
// ncclGroupSimulateEnd: ends the group without doing anything and gives the modelled time.
ncclResult_t group_simulate_end(uint64_t& duration_ns);

}  // namespace simgpu::nccl
