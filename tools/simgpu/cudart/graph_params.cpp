#include <cstring>

#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/graphs.h"
#include "tools/simgpu/cudart/registry.h"
#include "tools/simgpu/cudart/state.h"

namespace simgpu::cudart {

static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams) &&
              offsetof(cudaGraphNodeParams, kernel) == offsetof(CUgraphNodeParams, kernel));
static_assert(int(cudaGraphNodeTypeConditional) == int(CU_GRAPH_NODE_TYPE_CONDITIONAL));
static_assert(sizeof(cudaMemAllocNodeParamsV2) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2));
static_assert(sizeof(cudaChildGraphNodeParams) == sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS));
static_assert(offsetof(cudaConditionalNodeParams, phGraph_out) ==
              offsetof(CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out));

cudaError_t to_driver(const cudaKernelNodeParams& parameters, CUDA_KERNEL_NODE_PARAMS_v2* out) {
  *out = CUDA_KERNEL_NODE_PARAMS_v2{};
  if (const cudaError_t error = resolve_kernel(parameters.func, &out->kern); error != cudaSuccess)
    return error;
  out->gridDimX = parameters.gridDim.x;
  out->gridDimY = parameters.gridDim.y;
  out->gridDimZ = parameters.gridDim.z;
  out->blockDimX = parameters.blockDim.x;
  out->blockDimY = parameters.blockDim.y;
  out->blockDimZ = parameters.blockDim.z;
  out->sharedMemBytes = parameters.sharedMemBytes;
  out->kernelParams = parameters.kernelParams;
  out->extra = parameters.extra;
  return cudaSuccess;
}

cudaError_t to_runtime(const CUDA_KERNEL_NODE_PARAMS_v2& parameters, cudaKernelNodeParams* out) {
  // A captured launch may have left the kernel in either place.
  const void* kernel = parameters.kern != nullptr ? static_cast<const void*>(parameters.kern)
                                                  : static_cast<const void*>(parameters.func);
  out->func = const_cast<void*>(host_function_of(kernel));
  out->gridDim = dim3(parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ);
  out->blockDim = dim3(parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ);
  out->sharedMemBytes = parameters.sharedMemBytes;
  out->kernelParams = parameters.kernelParams;
  out->extra = parameters.extra;
  return cudaSuccess;
}

CUDA_MEMSET_NODE_PARAMS_v1 to_driver(const cudaMemsetParams& parameters) {
  return {to_driver(parameters.dst), parameters.pitch, parameters.value,
          parameters.elementSize,    parameters.width, parameters.height};
}

cudaError_t flat_copy(void* destination, const void* source, size_t count, cudaMemcpyKind kind,
                      CUDA_MEMCPY3D_v2* out) {
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = {const_cast<void*>(source), count, count, 1};
  parameters.dstPtr = {destination, count, count, 1};
  parameters.extent = {count, 1, 1};
  parameters.kind = kind;
  return to_driver(parameters, out);
}

cudaError_t to_driver(const cudaGraphNodeParams& parameters, CUgraphNodeParams* out) {
  // Alike by layout except for the three kinds below, whose driver form also names a context.
  std::memcpy(out, &parameters, sizeof *out);
  switch (parameters.type) {
    case cudaGraphNodeTypeKernel: {
      const cudaKernelNodeParamsV2& kernel = parameters.kernel;
      cudaKernelNodeParams plain{};
      plain.func = kernel.func;
      plain.gridDim = kernel.gridDim;
      plain.blockDim = kernel.blockDim;
      plain.sharedMemBytes = kernel.sharedMemBytes;
      plain.kernelParams = kernel.kernelParams;
      plain.extra = kernel.extra;
      std::memset(out->reserved1, 0, sizeof out->reserved1);
      CUDA_KERNEL_NODE_PARAMS_v2 native{};
      if (const cudaError_t error = to_driver(plain, &native); error != cudaSuccess) return error;
      static_assert(sizeof native == sizeof out->kernel);
      std::memcpy(&out->kernel, &native, sizeof native);
      return cudaSuccess;
    }
    case cudaGraphNodeTypeMemcpy: {
      std::memset(out->reserved1, 0, sizeof out->reserved1);
      out->memcpy.flags = parameters.memcpy.flags;
      out->memcpy.copyCtx = current_context();
      return to_driver(parameters.memcpy.copyParams, &out->memcpy.copyParams);
    }
    case cudaGraphNodeTypeMemset:
      out->memset.ctx = current_context();
      return cudaSuccess;
    case cudaGraphNodeTypeConditional:
      out->conditional.ctx = current_context();
      return cudaSuccess;
    default:
      return cudaSuccess;
  }
}

void copy_results(const CUgraphNodeParams& native, cudaGraphNodeParams* parameters) {
  if (parameters->type == cudaGraphNodeTypeMemAlloc) {
    parameters->alloc.dptr = reinterpret_cast<void*>(native.alloc.dptr);
  } else if (parameters->type == cudaGraphNodeTypeConditional) {
    parameters->conditional.phGraph_out = native.conditional.phGraph_out;
  }
}

}  // namespace simgpu::cudart
