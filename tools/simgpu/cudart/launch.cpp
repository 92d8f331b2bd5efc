#include "tools/simgpu/cudart/launch.h"

#include "tools/simgpu/cudart/registry.h"
#include "tools/simgpu/cudart/state.h"

namespace simgpu::cudart {

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value));
static_assert(int(cudaLaunchAttributePreferredSharedMemoryCarveout) ==
              int(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));

CUlaunchConfig to_driver(const cudaLaunchConfig_t& config) {
  CUlaunchConfig native{};
  native.gridDimX = config.gridDim.x;
  native.gridDimY = config.gridDim.y;
  native.gridDimZ = config.gridDim.z;
  native.blockDimX = config.blockDim.x;
  native.blockDimY = config.blockDim.y;
  native.blockDimZ = config.blockDim.z;
  native.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  native.hStream = config.stream;
  native.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);
  native.numAttrs = config.numAttrs;
  return native;
}

cudaError_t explain_refusal(CUresult result, dim3 grid, dim3 block) {
  if (result != CUDA_ERROR_INVALID_VALUE) return to_runtime(result);
  CUdevice device = 0;
  if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return cudaErrorInvalidValue;
  const auto exceeds = [&](unsigned value, CUdevice_attribute attribute) {
    int limit = 0;
    return value == 0 || (driver.cuDeviceGetAttribute(&limit, attribute, device) == CUDA_SUCCESS &&
                          value > static_cast<unsigned>(limit));
  };
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (exceeds(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
      exceeds(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      exceeds(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) ||
      exceeds(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
      exceeds(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
      exceeds(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) || threads > UINT32_MAX ||
      exceeds(static_cast<unsigned>(threads), CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) {
    return cudaErrorInvalidConfiguration;
  }
  return cudaErrorInvalidValue;
}

namespace {

// The driver's parameter is 32 bits wide; a larger request is impossible on any device.
bool shared_too_large(size_t bytes) { return bytes > UINT32_MAX; }

cudaError_t launch_symbol(Flavour flavour, const void* function, dim3 grid, dim3 block, void** arguments,
                          size_t shared_bytes, cudaStream_t stream) {
  CUkernel kernel = nullptr;
  if (const cudaError_t error = resolve_kernel(function, &kernel); error != cudaSuccess) return error;
  return launch(flavour, kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t launch_cooperative(Flavour flavour, const void* function, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  CUkernel kernel = nullptr;
  if (const cudaError_t error = resolve_kernel(function, &kernel); error != cudaSuccess) return error;
  if (shared_too_large(shared_bytes)) return cudaErrorInvalidValue;
  const CUresult result = driver.cuLaunchCooperativeKernel[flavour](
      as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
      static_cast<unsigned>(shared_bytes), stream, arguments);
  return explain_refusal(result, grid, block);
}

cudaError_t launch_with_config(Flavour flavour, const cudaLaunchConfig_t* config, const void* function,
                               void** arguments) {
  if (config == nullptr) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  if (const cudaError_t error = resolve_kernel(function, &kernel); error != cudaSuccess) return error;
  if (shared_too_large(config->dynamicSmemBytes)) return cudaErrorInvalidValue;
  const CUlaunchConfig native = to_driver(*config);
  const CUresult result = driver.cuLaunchKernelEx[flavour](&native, as_function(kernel), arguments, nullptr);
  return explain_refusal(result, config->gridDim, config->blockDim);
}

CUresult launch_host_function(Flavour flavour, cudaStream_t stream, cudaHostFn_t function, void* data) {
  return driver.cuLaunchHostFunc[flavour](stream, function, data);
}

}  // namespace

cudaError_t launch(Flavour flavour, CUkernel kernel, dim3 grid, dim3 block, void** arguments,
                   size_t shared_bytes, cudaStream_t stream) {
  if (shared_too_large(shared_bytes)) return cudaErrorInvalidValue;
  const CUresult result =
      driver.cuLaunchKernel[flavour](as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     static_cast<unsigned>(shared_bytes), stream, arguments, nullptr);
  if (result == CUDA_SUCCESS) [[likely]]
    return cudaSuccess;
  return explain_refusal(result, grid, block);
}

}  // namespace simgpu::cudart

using namespace simgpu::cudart;

CUDART_DUAL(_ptsz, cudaLaunchKernel,
            (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
             cudaStream_t stream),
            launch_symbol, func, gridDim, blockDim, args, sharedMem, stream)
CUDART_DUAL(_ptsz, cudaLaunchCooperativeKernel,
            (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
             cudaStream_t stream),
            launch_cooperative, func, gridDim, blockDim, args, sharedMem, stream)
CUDART_DUAL(_ptsz, cudaLaunchKernelExC, (const cudaLaunchConfig_t* config, const void* func, void** args),
            launch_with_config, config, func, args)
CUDART_DUAL(_ptsz, cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void* userData),
            launch_host_function, stream, fn, userData)
