// Device attributes and the cudaDeviceProp structure, put together from the driver's attributes.
#include <cstring>

#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

// An attribute this driver does not know reads as 0.
int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

template <size_t N>
void attributes(CUdevice device, int (&out)[N], const CUdevice_attribute (&which)[N]) {
  for (size_t i = 0; i < N; ++i) out[i] = attribute(device, which[i]);
}

void fill_limits(CUdevice d, cudaDeviceProp* p) {
#define A(name) attribute(d, CU_DEVICE_ATTRIBUTE_##name)
  p->sharedMemPerBlock = A(MAX_SHARED_MEMORY_PER_BLOCK);
  p->regsPerBlock = A(MAX_REGISTERS_PER_BLOCK);
  p->warpSize = A(WARP_SIZE);
  p->memPitch = A(MAX_PITCH);
  p->maxThreadsPerBlock = A(MAX_THREADS_PER_BLOCK);
  attributes(d, p->maxThreadsDim,
             {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
              CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z});
  attributes(d, p->maxGridSize,
             {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
              CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z});
  p->totalConstMem = A(TOTAL_CONSTANT_MEMORY);
  p->major = A(COMPUTE_CAPABILITY_MAJOR);
  p->minor = A(COMPUTE_CAPABILITY_MINOR);
  p->multiProcessorCount = A(MULTIPROCESSOR_COUNT);
  p->maxThreadsPerMultiProcessor = A(MAX_THREADS_PER_MULTIPROCESSOR);
  p->sharedMemPerMultiprocessor = A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p->regsPerMultiprocessor = A(MAX_REGISTERS_PER_MULTIPROCESSOR);
  p->sharedMemPerBlockOptin = A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p->maxBlocksPerMultiProcessor = A(MAX_BLOCKS_PER_MULTIPROCESSOR);
  p->reservedSharedMemPerBlock = A(RESERVED_SHARED_MEMORY_PER_BLOCK);
  p->memoryBusWidth = A(GLOBAL_MEMORY_BUS_WIDTH);
  p->l2CacheSize = A(L2_CACHE_SIZE);
  p->persistingL2CacheMaxSize = A(MAX_PERSISTING_L2_CACHE_SIZE);
  p->accessPolicyMaxWindowSize = A(MAX_ACCESS_POLICY_WINDOW_SIZE);
}

void fill_textures(CUdevice d, cudaDeviceProp* p) {
  p->textureAlignment = A(TEXTURE_ALIGNMENT);
  p->texturePitchAlignment = A(TEXTURE_PITCH_ALIGNMENT);
  p->surfaceAlignment = A(SURFACE_ALIGNMENT);
  p->maxTexture1D = A(MAXIMUM_TEXTURE1D_WIDTH);
  p->maxTexture1DMipmap = A(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH);
  attributes(d, p->maxTexture2D,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT});
  attributes(d, p->maxTexture2DMipmap,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT});
  attributes(d, p->maxTexture2DLinear,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH});
  attributes(d, p->maxTexture2DGather,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT});
  attributes(d, p->maxTexture3D,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH});
  attributes(d, p->maxTexture3DAlt,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE});
  p->maxTextureCubemap = A(MAXIMUM_TEXTURECUBEMAP_WIDTH);
  attributes(d, p->maxTexture1DLayered,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS});
  attributes(d, p->maxTexture2DLayered,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS});
  attributes(d, p->maxTextureCubemapLayered,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS});
  p->maxSurface1D = A(MAXIMUM_SURFACE1D_WIDTH);
  attributes(d, p->maxSurface2D,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT});
  attributes(d, p->maxSurface3D,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH});
  attributes(d, p->maxSurface1DLayered,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS});
  attributes(d, p->maxSurface2DLayered,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS});
  p->maxSurfaceCubemap = A(MAXIMUM_SURFACECUBEMAP_WIDTH);
  attributes(d, p->maxSurfaceCubemapLayered,
             {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH,
              CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS});
}

void fill_abilities(CUdevice d, cudaDeviceProp* p) {
  p->integrated = A(INTEGRATED);
  p->canMapHostMemory = A(CAN_MAP_HOST_MEMORY);
  p->concurrentKernels = A(CONCURRENT_KERNELS);
  p->ECCEnabled = A(ECC_ENABLED);
  p->pciBusID = A(PCI_BUS_ID);
  p->pciDeviceID = A(PCI_DEVICE_ID);
  p->pciDomainID = A(PCI_DOMAIN_ID);
  p->tccDriver = A(TCC_DRIVER);
  p->asyncEngineCount = A(ASYNC_ENGINE_COUNT);
  p->unifiedAddressing = A(UNIFIED_ADDRESSING);
  p->streamPrioritiesSupported = A(STREAM_PRIORITIES_SUPPORTED);
  p->globalL1CacheSupported = A(GLOBAL_L1_CACHE_SUPPORTED);
  p->localL1CacheSupported = A(LOCAL_L1_CACHE_SUPPORTED);
  p->managedMemory = A(MANAGED_MEMORY);
  p->isMultiGpuBoard = A(MULTI_GPU_BOARD);
  p->multiGpuBoardGroupID = A(MULTI_GPU_BOARD_GROUP_ID);
  p->hostNativeAtomicSupported = A(HOST_NATIVE_ATOMIC_SUPPORTED);
  p->pageableMemoryAccess = A(PAGEABLE_MEMORY_ACCESS);
  p->concurrentManagedAccess = A(CONCURRENT_MANAGED_ACCESS);
  p->computePreemptionSupported = A(COMPUTE_PREEMPTION_SUPPORTED);
  p->canUseHostPointerForRegisteredMem = A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  p->cooperativeLaunch = A(COOPERATIVE_LAUNCH);
  p->pageableMemoryAccessUsesHostPageTables = A(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  p->directManagedMemAccessFromHost = A(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
  p->hostRegisterSupported = A(HOST_REGISTER_SUPPORTED);
  p->sparseCudaArraySupported = A(SPARSE_CUDA_ARRAY_SUPPORTED);
  p->hostRegisterReadOnlySupported = A(READ_ONLY_HOST_REGISTER_SUPPORTED);
  p->timelineSemaphoreInteropSupported = A(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
  p->memoryPoolsSupported = A(MEMORY_POOLS_SUPPORTED);
  p->gpuDirectRDMASupported = A(GPU_DIRECT_RDMA_SUPPORTED);
  p->gpuDirectRDMAFlushWritesOptions = A(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  p->gpuDirectRDMAWritesOrdering = A(GPU_DIRECT_RDMA_WRITES_ORDERING);
  p->memoryPoolSupportedHandleTypes = A(MEMPOOL_SUPPORTED_HANDLE_TYPES);
  p->deferredMappingCudaArraySupported = A(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
  p->ipcEventSupported = A(IPC_EVENT_SUPPORTED);
  p->clusterLaunch = A(CLUSTER_LAUNCH);
  p->unifiedFunctionPointers = A(UNIFIED_FUNCTION_POINTERS);
  p->deviceNumaConfig = A(NUMA_CONFIG);
  p->deviceNumaId = A(NUMA_ID);
  p->mpsEnabled = A(MPS_ENABLED);
  p->hostNumaId = A(HOST_NUMA_ID);
  p->gpuPciDeviceID = A(GPU_PCI_DEVICE_ID);
  p->gpuPciSubsystemID = A(GPU_PCI_SUBSYSTEM_ID);
  p->hostNumaMultinodeIpcSupported = A(HOST_NUMA_MULTINODE_IPC_SUPPORTED);
#undef A
}

cudaError_t get_properties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return cudaErrorInvalidValue;
  if (!valid_device(device)) return cudaErrorInvalidDevice;
  const CUdevice handle = device_handle(device);
  std::memset(properties, 0, sizeof *properties);
  CUresult result = driver.cuDeviceGetName(properties->name, sizeof properties->name, handle);
  if (result != CUDA_SUCCESS) return to_runtime(result);
  result = driver.cuDeviceTotalMem(&properties->totalGlobalMem, handle);
  if (result != CUDA_SUCCESS) return to_runtime(result);
  result = driver.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&properties->uuid), handle);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED) return to_runtime(result);
  // Only Windows has LUIDs; elsewhere the call fails and the fields stay zero.
  driver.cuDeviceGetLuid(properties->luid, &properties->luidDeviceNodeMask, handle);
  fill_limits(handle, properties);
  fill_textures(handle, properties);
  fill_abilities(handle, properties);
  return cudaSuccess;
}

// How well a device fits what the caller asked for: fields that were left 0 (or -1) ask for nothing.
int match(const cudaDeviceProp& device, const cudaDeviceProp& wanted) {
  int score = 0;
  const auto equal = [&](auto have, auto want) {
    if (want > 0 && have == want) ++score;
  };
  const auto at_least = [&](auto have, auto want) {
    if (want > 0 && have >= want) ++score;
  };
  if (wanted.major > 0 && device.major == wanted.major) {
    score += 2;
    if (wanted.minor <= device.minor) ++score;
  }
  if (wanted.name[0] != '\0' && std::strncmp(wanted.name, device.name, sizeof wanted.name) == 0) score += 4;
  at_least(device.totalGlobalMem, wanted.totalGlobalMem);
  at_least(device.sharedMemPerBlock, wanted.sharedMemPerBlock);
  at_least(device.regsPerBlock, wanted.regsPerBlock);
  at_least(device.maxThreadsPerBlock, wanted.maxThreadsPerBlock);
  at_least(device.multiProcessorCount, wanted.multiProcessorCount);
  equal(device.warpSize, wanted.warpSize);
  equal(device.pciBusID, wanted.pciBusID);
  equal(device.integrated, wanted.integrated);
  equal(device.ECCEnabled, wanted.ECCEnabled);
  return score;
}

}  // namespace

CUDART_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return with_driver([&] { return get_properties(prop, device); });
}

CUDART_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return with_driver([&]() -> cudaError_t {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    if (attr < cudaDevAttrMaxThreadsPerBlock || attr >= cudaDevAttrMax) return cudaErrorInvalidValue;
    return to_runtime(
        driver.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device_handle(device)));
  });
}

CUDART_API cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
  return with_driver([&]() -> cudaError_t {
    if (device == nullptr || prop == nullptr) return cudaErrorInvalidValue;
    int best = 0, best_score = -1;
    for (int i = 0; i < device_count(); ++i) {
      cudaDeviceProp have;
      if (const cudaError_t error = get_properties(&have, i); error != cudaSuccess) return error;
      if (const int score = match(have, *prop); score > best_score) {
        best = i;
        best_score = score;
      }
    }
    *device = best;
    return cudaSuccess;
  });
}

CUDART_API cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements,
                                                            const cudaChannelFormatDesc* fmtDesc,
                                                            int device) {
  return with_driver([&]() -> cudaError_t {
    if (maxWidthInElements == nullptr || fmtDesc == nullptr) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    ArrayFormat format{};
    if (!to_driver(*fmtDesc, &format)) return cudaErrorInvalidChannelDescriptor;
    return to_runtime(driver.cuDeviceGetTexture1DLinearMaxWidth(maxWidthInElements, format.format,
                                                                format.channels, device_handle(device)));
  });
}
