// What an operation's buffers are to NCCL: registered, in a symmetric window, or neither. Looked up when the
// call is made; ranks must agree (registration.cpp). Any thread that may use the communicator.
#pragma once
#include "tools/simgpu/nccl/operation.h"

namespace simgpu::nccl {

Standing standing(ncclComm& comm, const Operation& operation);

}  // namespace simgpu::nccl
