// Between the runtime's graph node parameters and the driver's. Shared by the graph files only.
#pragma once
#include "tools/simgpu/cudart/driver.h"

namespace simgpu::cudart {

cudaError_t to_driver(const cudaKernelNodeParams& parameters, CUDA_KERNEL_NODE_PARAMS_v2* out);
cudaError_t to_runtime(const CUDA_KERNEL_NODE_PARAMS_v2& parameters, cudaKernelNodeParams* out);
CUDA_MEMSET_NODE_PARAMS_v1 to_driver(const cudaMemsetParams& parameters);
// A copy of `count` flat bytes as a 3D copy.
cudaError_t flat_copy(void* destination, const void* source, size_t count, cudaMemcpyKind kind,
                      CUDA_MEMCPY3D_v2* out);

inline const CUgraphEdgeData* as_driver(const cudaGraphEdgeData* edges) {
  return reinterpret_cast<const CUgraphEdgeData*>(edges);
}
inline CUgraphEdgeData* as_driver(cudaGraphEdgeData* edges) {
  return reinterpret_cast<CUgraphEdgeData*>(edges);
}

// Parameters for cudaGraphAddNode and the two functions that change such a node.
cudaError_t to_driver(const cudaGraphNodeParams& parameters, CUgraphNodeParams* out);
// Copies what the driver returned inside the parameters (an address, the bodies of a conditional node).
void copy_results(const CUgraphNodeParams& native, cudaGraphNodeParams* parameters);

}  // namespace simgpu::cudart
