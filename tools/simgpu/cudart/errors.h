// Error codes: from the driver's to the runtime's, and each thread's last error.
// record() keeps what cudaGetLastError() hands out; the state is per thread and needs no lock or destructor.
#pragma once
#include "tools/simgpu/cudart/driver.h"

namespace simgpu::cudart {

// The two enumerations agree in number wherever both have the meaning. What the runtime has no name for is
// cudaErrorUnknown.
cudaError_t to_runtime(CUresult result);
inline cudaError_t to_runtime(cudaError_t error) { return error; }

// Remembers a failure as this thread's last error; returns its argument.
cudaError_t record(cudaError_t error);

// For calls whose "not found" has a name of its own.
inline cudaError_t not_found_as(CUresult result, cudaError_t error) {
  return result == CUDA_ERROR_NOT_FOUND ? error : to_runtime(result);
}

}  // namespace simgpu::cudart
