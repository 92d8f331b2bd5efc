// Stream-ordered allocation and memory pools.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

// The two APIs' structures are laid out alike; the checks keep it so.
static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps) &&
              offsetof(cudaMemPoolProps, usage) == offsetof(CUmemPoolProps, usage));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));
static_assert(int(cudaMemPoolAttrUsedMemHigh) == int(CU_MEMPOOL_ATTR_USED_MEM_HIGH));

CUmemoryPool as_driver(cudaMemPool_t pool) { return reinterpret_cast<CUmemoryPool>(pool); }
CUmemoryPool* as_driver(cudaMemPool_t* pool) { return reinterpret_cast<CUmemoryPool*>(pool); }
CUmemLocation* as_driver(cudaMemLocation* location) { return reinterpret_cast<CUmemLocation*>(location); }
CUdeviceptr* as_driver(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

template <typename Body>
cudaError_t on_device(int device, Body&& body, const char* function = __builtin_FUNCTION()) {
  return with_context(
      [&]() -> cudaError_t {
        if (!valid_device(device)) return cudaErrorInvalidDevice;
        return to_runtime(body(device_handle(device)));
      },
      function);
}

CUresult allocate(Flavour flavour, void** pointer, size_t size, cudaStream_t stream) {
  return driver.cuMemAllocAsync[flavour](as_driver(pointer), size, stream);
}
CUresult release(Flavour flavour, void* pointer, cudaStream_t stream) {
  return driver.cuMemFreeAsync[flavour](to_driver(pointer), stream);
}
CUresult allocate_from(Flavour flavour, void** pointer, size_t size, cudaMemPool_t pool,
                       cudaStream_t stream) {
  return driver.cuMemAllocFromPoolAsync[flavour](as_driver(pointer), size, as_driver(pool), stream);
}

}  // namespace

CUDART_DUAL(_ptsz, cudaMallocAsync, (void** devPtr, size_t size, cudaStream_t hStream), allocate, devPtr,
            size, hStream)
CUDART_DUAL(_ptsz, cudaFreeAsync, (void* devPtr, cudaStream_t hStream), release, devPtr, hStream)
CUDART_DUAL(_ptsz, cudaMallocFromPoolAsync,
            (void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream), allocate_from, ptr, size,
            memPool, stream)

CUDART_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep) {
  return with_context([&] { return driver.cuMemPoolTrimTo(as_driver(memPool), minBytesToKeep); });
}

CUDART_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_context([&] {
    return driver.cuMemPoolSetAttribute(as_driver(memPool), static_cast<CUmemPool_attribute>(attr), value);
  });
}

CUDART_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_context([&] {
    return driver.cuMemPoolGetAttribute(as_driver(memPool), static_cast<CUmemPool_attribute>(attr), value);
  });
}

CUDART_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc* descList,
                                            size_t count) {
  return with_context([&] {
    return driver.cuMemPoolSetAccess(as_driver(memPool), reinterpret_cast<const CUmemAccessDesc*>(descList),
                                     count);
  });
}

CUDART_API cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t memPool,
                                            cudaMemLocation* location) {
  return with_context([&] {
    return driver.cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), as_driver(memPool),
                                     as_driver(location));
  });
}

CUDART_API cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const cudaMemPoolProps* poolProps) {
  return with_context([&] {
    return driver.cuMemPoolCreate(as_driver(memPool), reinterpret_cast<const CUmemPoolProps*>(poolProps));
  });
}

CUDART_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) {
  return with_context([&] { return driver.cuMemPoolDestroy(as_driver(memPool)); });
}

CUDART_API cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* memPool, cudaMemLocation* location,
                                                cudaMemAllocationType type) {
  return with_context([&] {
    return driver.cuMemGetDefaultMemPool(as_driver(memPool), as_driver(location),
                                         static_cast<CUmemAllocationType>(type));
  });
}

CUDART_API cudaError_t cudaMemGetMemPool(cudaMemPool_t* memPool, cudaMemLocation* location,
                                         cudaMemAllocationType type) {
  return with_context([&] {
    return driver.cuMemGetMemPool(as_driver(memPool), as_driver(location),
                                  static_cast<CUmemAllocationType>(type));
  });
}

CUDART_API cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                                         cudaMemPool_t memPool) {
  return with_context([&] {
    return driver.cuMemSetMemPool(as_driver(location), static_cast<CUmemAllocationType>(type),
                                  as_driver(memPool));
  });
}

CUDART_API cudaError_t cudaMemPoolExportToShareableHandle(void* shareableHandle, cudaMemPool_t memPool,
                                                          cudaMemAllocationHandleType handleType,
                                                          unsigned int flags) {
  return with_context([&] {
    return driver.cuMemPoolExportToShareableHandle(shareableHandle, as_driver(memPool),
                                                   static_cast<CUmemAllocationHandleType>(handleType), flags);
  });
}

CUDART_API cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* memPool, void* shareableHandle,
                                                            cudaMemAllocationHandleType handleType,
                                                            unsigned int flags) {
  return with_context([&] {
    return driver.cuMemPoolImportFromShareableHandle(
        as_driver(memPool), shareableHandle, static_cast<CUmemAllocationHandleType>(handleType), flags);
  });
}

CUDART_API cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* exportData, void* ptr) {
  return with_context([&] {
    return driver.cuMemPoolExportPointer(reinterpret_cast<CUmemPoolPtrExportData*>(exportData),
                                         to_driver(ptr));
  });
}

CUDART_API cudaError_t cudaMemPoolImportPointer(void** ptr, cudaMemPool_t memPool,
                                                cudaMemPoolPtrExportData* exportData) {
  return with_context([&] {
    return driver.cuMemPoolImportPointer(as_driver(ptr), as_driver(memPool),
                                         reinterpret_cast<CUmemPoolPtrExportData*>(exportData));
  });
}

CUDART_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  return on_device(
      device, [&](CUdevice handle) { return driver.cuDeviceGetDefaultMemPool(as_driver(memPool), handle); });
}

CUDART_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  return on_device(device,
                   [&](CUdevice handle) { return driver.cuDeviceSetMemPool(handle, as_driver(memPool)); });
}

CUDART_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  return on_device(device,
                   [&](CUdevice handle) { return driver.cuDeviceGetMemPool(as_driver(memPool), handle); });
}
