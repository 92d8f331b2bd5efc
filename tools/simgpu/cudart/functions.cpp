// Kernels as objects: attributes, preferences, parameters, occupancy.
#include "tools/simgpu/cudart/launch.h"
#include "tools/simgpu/cudart/registry.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

// Body of a call about one kernel, given as host function or cudaKernel_t.
template <typename Body>
cudaError_t on_kernel(const void* function, Body&& body, const char* api = __builtin_FUNCTION()) {
  return with_context(
      [&]() -> cudaError_t {
        CUkernel kernel = nullptr;
        if (const cudaError_t error = resolve_kernel(function, &kernel); error != cudaSuccess) return error;
        return to_runtime(body(kernel));
      },
      api);
}

CUdevice current_handle() { return device_handle(current_device()); }

cudaError_t get_attributes(cudaFuncAttributes* out, CUkernel kernel) {
  if (out == nullptr) return cudaErrorInvalidValue;
  const CUdevice device = current_handle();
  int values[CU_FUNC_ATTRIBUTE_MAX] = {};
  for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; ++i) {
    const CUresult result =
        driver.cuKernelGetAttribute(&values[i], static_cast<CUfunction_attribute>(i), kernel, device);
    if (result != CUDA_SUCCESS) return to_runtime(result);
  }
  *out = cudaFuncAttributes{};
  out->sharedSizeBytes = values[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
  out->constSizeBytes = values[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES];
  out->localSizeBytes = values[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];
  out->maxThreadsPerBlock = values[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  out->numRegs = values[CU_FUNC_ATTRIBUTE_NUM_REGS];
  out->ptxVersion = values[CU_FUNC_ATTRIBUTE_PTX_VERSION];
  out->binaryVersion = values[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
  out->cacheModeCA = values[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA];
  out->maxDynamicSharedSizeBytes = values[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
  out->preferredShmemCarveout = values[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
  out->clusterDimMustBeSet = values[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET];
  out->requiredClusterWidth = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
  out->requiredClusterHeight = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT];
  out->requiredClusterDepth = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH];
  out->clusterSchedulingPolicyPreference = values[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE];
  out->nonPortableClusterSizeAllowed = values[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
  return cudaSuccess;
}

// The two enumerations are one by number for what can be set.
static_assert(int(cudaFuncAttributeMaxDynamicSharedMemorySize) ==
                  int(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) &&
              int(cudaFuncAttributeClusterSchedulingPolicyPreference) ==
                  int(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE));

cudaError_t set_attribute(CUkernel kernel, cudaFuncAttribute attribute, int value, CUdevice device) {
  if (attribute < cudaFuncAttributeMaxDynamicSharedMemorySize || attribute >= cudaFuncAttributeMax ||
      attribute == cudaFuncAttributeClusterDimMustBeSet) {
    return cudaErrorInvalidValue;
  }
  return to_runtime(
      driver.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel, device));
}

}  // namespace

CUDART_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return on_kernel(func, [&](CUkernel kernel) { return get_attributes(attr, kernel); });
}

CUDART_API cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return on_kernel(func,
                   [&](CUkernel kernel) { return set_attribute(kernel, attr, value, current_handle()); });
}

CUDART_API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attr, int value,
                                                       int device) {
  return on_kernel(kernel, [&](CUkernel resolved) -> cudaError_t {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    return set_attribute(resolved, attr, value, device_handle(device));
  });
}

CUDART_API cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache cacheConfig) {
  return with_context([&]() -> cudaError_t {
    // Documented: a host function only, no cudaKernel_t.
    Function* function = find_function(func);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    CUkernel kernel = nullptr;
    if (const cudaError_t error = resolve_function(function, &kernel); error != cudaSuccess) return error;
    return to_runtime(
        driver.cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(cacheConfig), current_handle()));
  });
}

CUDART_API cudaError_t cudaFuncSetSharedMemConfig(const void* func, cudaSharedMemConfig config) {
  return on_kernel(func, [&](CUkernel kernel) -> cudaError_t {
    CUfunction function = nullptr;
    const CUresult result = driver.cuKernelGetFunction(&function, kernel);
    if (result != CUDA_SUCCESS) return to_runtime(result);
    return to_runtime(driver.cuFuncSetSharedMemConfig(function, static_cast<CUsharedconfig>(config)));
  });
}

CUDART_API cudaError_t cudaFuncGetName(const char** name, const void* func) {
  return on_kernel(func, [&](CUkernel kernel) -> cudaError_t {
    if (name == nullptr) return cudaErrorInvalidValue;
    return to_runtime(driver.cuKernelGetName(name, kernel));
  });
}

CUDART_API cudaError_t cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset,
                                            size_t* paramSize) {
  return on_kernel(func, [&](CUkernel kernel) {
    return driver.cuKernelGetParamInfo(kernel, paramIndex, paramOffset, paramSize);
  });
}

CUDART_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
  return on_kernel(symbolPtr, [&](CUkernel kernel) -> cudaError_t {
    if (functionPtr == nullptr) return cudaErrorInvalidValue;
    return to_runtime(driver.cuKernelGetFunction(functionPtr, kernel));
  });
}

CUDART_API cudaError_t cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  return on_kernel(entryFuncAddr, [&](CUkernel kernel) -> cudaError_t {
    if (kernelPtr == nullptr) return cudaErrorInvalidValue;
    *kernelPtr = kernel;
    return cudaSuccess;
  });
}

CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func,
                                                                     int blockSize, size_t dynamicSMemSize) {
  return on_kernel(func, [&](CUkernel kernel) {
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, as_function(kernel), blockSize,
                                                              dynamicSMemSize);
  });
}

CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks,
                                                                              const void* func, int blockSize,
                                                                              size_t dynamicSMemSize,
                                                                              unsigned int flags) {
  return on_kernel(func, [&](CUkernel kernel) {
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, as_function(kernel),
                                                                       blockSize, dynamicSMemSize, flags);
  });
}

CUDART_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func,
                                                                 int numBlocks, int blockSize) {
  return on_kernel(func, [&](CUkernel kernel) {
    return driver.cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, as_function(kernel), numBlocks,
                                                          blockSize);
  });
}

CUDART_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int* clusterSize, const void* func,
                                                            const cudaLaunchConfig_t* launchConfig) {
  return on_kernel(func, [&](CUkernel kernel) -> cudaError_t {
    if (launchConfig == nullptr) return cudaErrorInvalidValue;
    const CUlaunchConfig config = to_driver(*launchConfig);
    return to_runtime(driver.cuOccupancyMaxPotentialClusterSize(clusterSize, as_function(kernel), &config));
  });
}

CUDART_API cudaError_t cudaOccupancyMaxActiveClusters(int* numClusters, const void* func,
                                                      const cudaLaunchConfig_t* launchConfig) {
  return on_kernel(func, [&](CUkernel kernel) -> cudaError_t {
    if (launchConfig == nullptr) return cudaErrorInvalidValue;
    const CUlaunchConfig config = to_driver(*launchConfig);
    return to_runtime(driver.cuOccupancyMaxActiveClusters(numClusters, as_function(kernel), &config));
  });
}
