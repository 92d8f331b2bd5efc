// How libnccl.so.2's functions are written: NCCL_FUNCTION(name, (parameters), (arguments)) { body } exports
// ncclX and its profiling twin pncclX with the same body.
#pragma once
#include <nccl.h>

#include "tools/simgpu/nccl/comm.h"

#define NCCL_EXPORT __attribute__((visibility("default")))
#define NCCL_FUNCTION(name, parameters, arguments)                                         \
  static ncclResult_t name##_body parameters;                                              \
  extern "C" NCCL_EXPORT ncclResult_t name parameters { return name##_body arguments; }    \
  extern "C" NCCL_EXPORT ncclResult_t p##name parameters { return name##_body arguments; } \
  static ncclResult_t name##_body parameters

namespace simgpu::nccl {
// ncclSuccess for a live communicator; otherwise NCCL's own answer, with the reason kept.
ncclResult_t check(const ncclComm* comm);
// What NCCL answers before it looks at a call: ncclInvalidArgument while the one before is in progress,
// otherwise the error the communicator has, if any.
ncclResult_t check_settled(ncclComm* comm);
}  // namespace simgpu::nccl
