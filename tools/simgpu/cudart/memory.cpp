// Linear memory: device, pitched, pinned host, managed; pointer attributes.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

CUdeviceptr* as_driver(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }
CUmemLocation as_driver(cudaMemLocation location) {
  return {static_cast<CUmemLocationType>(location.type), {location.id}};
}
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));

cudaError_t allocate_pinned(void** pointer, size_t size, unsigned flags) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (size == 0) return cudaSuccess;
  return to_runtime(driver.cuMemHostAlloc(pointer, size, flags));
}

cudaError_t pointer_attributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  // "Managed" is four bytes wide at the driver, not a bool.
  unsigned memory_type = 0, managed = 0;
  int ordinal = cudaInvalidDeviceId;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                  CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&memory_type, &managed, &ordinal, &device_pointer, &host_pointer};
  const CUresult result = driver.cuPointerGetAttributes(5, wanted, values, to_driver(pointer));
  if (result != CUDA_SUCCESS) return to_runtime(result);
  *attributes = cudaPointerAttributes{};
  if (managed != 0) {
    attributes->type = cudaMemoryTypeManaged;
  } else if (memory_type == CU_MEMORYTYPE_HOST) {
    attributes->type = cudaMemoryTypeHost;
  } else if (memory_type == CU_MEMORYTYPE_DEVICE) {
    attributes->type = cudaMemoryTypeDevice;
  } else {  // memory the driver does not know: the host's own
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  attributes->device = ordinal;
  attributes->devicePointer = reinterpret_cast<void*>(device_pointer);
  attributes->hostPointer = host_pointer;
  return cudaSuccess;
}

CUresult prefetch(Flavour flavour, const void* pointer, size_t count, cudaMemLocation location,
                  unsigned flags, cudaStream_t stream) {
  return driver.cuMemPrefetchAsync[flavour](to_driver(pointer), count, as_driver(location), flags, stream);
}

CUresult prefetch_batch(Flavour flavour, void** pointers, size_t* sizes, size_t count,
                        cudaMemLocation* locations, size_t* location_indices, size_t location_count,
                        unsigned long long flags, cudaStream_t stream) {
  return driver.cuMemPrefetchBatchAsync[flavour](as_driver(pointers), sizes, count,
                                                 reinterpret_cast<CUmemLocation*>(locations),
                                                 location_indices, location_count, flags, stream);
}

CUresult discard_batch(Flavour flavour, void** pointers, size_t* sizes, size_t count,
                       unsigned long long flags, cudaStream_t stream) {
  return driver.cuMemDiscardBatchAsync[flavour](as_driver(pointers), sizes, count, flags, stream);
}

CUresult discard_and_prefetch_batch(Flavour flavour, void** pointers, size_t* sizes, size_t count,
                                    cudaMemLocation* locations, size_t* location_indices,
                                    size_t location_count, unsigned long long flags, cudaStream_t stream) {
  return driver.cuMemDiscardAndPrefetchBatchAsync[flavour](as_driver(pointers), sizes, count,
                                                           reinterpret_cast<CUmemLocation*>(locations),
                                                           location_indices, location_count, flags, stream);
}

}  // namespace

CUDART_API cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return with_context([&]() -> cudaError_t {
    if (devPtr == nullptr) return cudaErrorInvalidValue;
    if (size == 0) {
      *devPtr = nullptr;
      return cudaSuccess;
    }
    return to_runtime(driver.cuMemAlloc(as_driver(devPtr), size));
  });
}

CUDART_API cudaError_t cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
  return with_context([&]() -> cudaError_t {
    if (devPtr == nullptr || pitch == nullptr) return cudaErrorInvalidValue;
    if (width == 0 || height == 0) {
      *devPtr = nullptr;
      *pitch = 0;
      return cudaSuccess;
    }
    return to_runtime(driver.cuMemAllocPitch(as_driver(devPtr), pitch, width, height, 4));
  });
}

CUDART_API cudaError_t cudaMalloc3D(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
  return with_context([&]() -> cudaError_t {
    if (pitchedDevPtr == nullptr) return cudaErrorInvalidValue;
    *pitchedDevPtr = {nullptr, 0, extent.width, extent.height};
    if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
    if (extent.height > SIZE_MAX / extent.depth) return cudaErrorMemoryAllocation;
    return to_runtime(driver.cuMemAllocPitch(as_driver(&pitchedDevPtr->ptr), &pitchedDevPtr->pitch,
                                             extent.width, extent.height * extent.depth, 4));
  });
}

CUDART_API cudaError_t cudaFree(void* devPtr) {
  return with_context([&] { return driver.cuMemFree(to_driver(devPtr)); });
}

CUDART_API cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return with_context([&] { return allocate_pinned(ptr, size, 0); });
}

CUDART_API cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  static_assert(cudaHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE &&
                cudaHostAllocMapped == CU_MEMHOSTALLOC_DEVICEMAP &&
                cudaHostAllocWriteCombined == CU_MEMHOSTALLOC_WRITECOMBINED);
  return with_context([&]() -> cudaError_t {
    if ((flags & ~7u) != 0) return cudaErrorInvalidValue;
    return allocate_pinned(pHost, size, flags);
  });
}

CUDART_API cudaError_t cudaFreeHost(void* ptr) {
  return with_context([&]() -> cudaError_t {
    if (ptr == nullptr) return cudaSuccess;
    return to_runtime(driver.cuMemFreeHost(ptr));
  });
}

CUDART_API cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  static_assert(cudaHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE &&
                cudaHostRegisterMapped == CU_MEMHOSTREGISTER_DEVICEMAP &&
                cudaHostRegisterIoMemory == CU_MEMHOSTREGISTER_IOMEMORY &&
                cudaHostRegisterReadOnly == CU_MEMHOSTREGISTER_READ_ONLY);
  return with_context([&] { return driver.cuMemHostRegister(ptr, size, flags); });
}

CUDART_API cudaError_t cudaHostUnregister(void* ptr) {
  return with_context([&] { return driver.cuMemHostUnregister(ptr); });
}

CUDART_API cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  return with_context([&] { return driver.cuMemHostGetDevicePointer(as_driver(pDevice), pHost, flags); });
}

CUDART_API cudaError_t cudaHostGetFlags(unsigned int* pFlags, void* pHost) {
  return with_context([&] { return driver.cuMemHostGetFlags(pFlags, pHost); });
}

CUDART_API cudaError_t cudaMallocManaged(void** devPtr, size_t size, unsigned int flags) {
  static_assert(cudaMemAttachGlobal == CU_MEM_ATTACH_GLOBAL && cudaMemAttachHost == CU_MEM_ATTACH_HOST);
  return with_context([&]() -> cudaError_t {
    if (devPtr == nullptr) return cudaErrorInvalidValue;
    return to_runtime(driver.cuMemAllocManaged(as_driver(devPtr), size, flags));
  });
}

CUDART_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return with_context([&] { return driver.cuMemGetInfo(free, total); });
}

CUDART_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  return with_context([&] { return pointer_attributes(attributes, ptr); });
}

CUDART_API cudaError_t cudaMemAdvise(const void* devPtr, size_t count, cudaMemoryAdvise advice,
                                     cudaMemLocation location) {
  return with_context([&] {
    return driver.cuMemAdvise(to_driver(devPtr), count, static_cast<CUmem_advise>(advice),
                              as_driver(location));
  });
}

CUDART_API cudaError_t cudaMemRangeGetAttribute(void* data, size_t dataSize, cudaMemRangeAttribute attribute,
                                                const void* devPtr, size_t count) {
  return with_context([&] {
    return driver.cuMemRangeGetAttribute(data, dataSize, static_cast<CUmem_range_attribute>(attribute),
                                         to_driver(devPtr), count);
  });
}

CUDART_API cudaError_t cudaMemRangeGetAttributes(void** data, size_t* dataSizes,
                                                 cudaMemRangeAttribute* attributes, size_t numAttributes,
                                                 const void* devPtr, size_t count) {
  return with_context([&] {
    return driver.cuMemRangeGetAttributes(data, dataSizes,
                                          reinterpret_cast<CUmem_range_attribute*>(attributes), numAttributes,
                                          to_driver(devPtr), count);
  });
}

CUDART_DUAL(_ptsz, cudaMemPrefetchAsync,
            (const void* devPtr, size_t count, cudaMemLocation location, unsigned int flags,
             cudaStream_t stream),
            prefetch, devPtr, count, location, flags, stream)
CUDART_DUAL(_ptsz, cudaMemPrefetchBatchAsync,
            (void** dptrs, size_t* sizes, size_t count, cudaMemLocation* prefetchLocs,
             size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
            prefetch_batch, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags,
            stream)
CUDART_DUAL(_ptsz, cudaMemDiscardBatchAsync,
            (void** dptrs, size_t* sizes, size_t count, unsigned long long flags, cudaStream_t stream),
            discard_batch, dptrs, sizes, count, flags, stream)
CUDART_DUAL(_ptsz, cudaMemDiscardAndPrefetchBatchAsync,
            (void** dptrs, size_t* sizes, size_t count, cudaMemLocation* prefetchLocs,
             size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
            discard_and_prefetch_batch, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs,
            flags, stream)
