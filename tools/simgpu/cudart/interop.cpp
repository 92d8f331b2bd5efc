// Memory and events shared with other processes and other APIs: IPC, external memory and semaphores,
// graphics.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

// Structures of the two APIs that are one by layout.
static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle) &&
              sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));
static_assert(sizeof(cudaExternalMemoryHandleDesc) == sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC) &&
              offsetof(cudaExternalMemoryHandleDesc, size) ==
                  offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size));
static_assert(sizeof(cudaExternalMemoryBufferDesc) == sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC));
static_assert(sizeof(cudaExternalSemaphoreHandleDesc) == sizeof(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC));
static_assert(sizeof(cudaExternalSemaphoreSignalParams) == sizeof(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS));
static_assert(sizeof(cudaExternalSemaphoreWaitParams) == sizeof(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS));

CUexternalMemory as_driver(cudaExternalMemory_t memory) { return reinterpret_cast<CUexternalMemory>(memory); }
CUexternalSemaphore as_driver(cudaExternalSemaphore_t semaphore) {
  return reinterpret_cast<CUexternalSemaphore>(semaphore);
}
CUgraphicsResource as_driver(cudaGraphicsResource_t resource) {
  return reinterpret_cast<CUgraphicsResource>(resource);
}
CUgraphicsResource* as_driver(cudaGraphicsResource_t* resources) {
  return reinterpret_cast<CUgraphicsResource*>(resources);
}

CUresult signal(Flavour flavour, const cudaExternalSemaphore_t* semaphores,
                const cudaExternalSemaphoreSignalParams* parameters, unsigned count, cudaStream_t stream) {
  return driver.cuSignalExternalSemaphoresAsync[flavour](
      reinterpret_cast<const CUexternalSemaphore*>(semaphores),
      reinterpret_cast<const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS*>(parameters), count, stream);
}
CUresult wait(Flavour flavour, const cudaExternalSemaphore_t* semaphores,
              const cudaExternalSemaphoreWaitParams* parameters, unsigned count, cudaStream_t stream) {
  return driver.cuWaitExternalSemaphoresAsync[flavour](
      reinterpret_cast<const CUexternalSemaphore*>(semaphores),
      reinterpret_cast<const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS*>(parameters), count, stream);
}

}  // namespace

CUDART_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return with_context(
      [&] { return driver.cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event); });
}
CUDART_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return with_context([&] {
    CUipcEventHandle native;
    static_assert(sizeof native == sizeof handle);
    __builtin_memcpy(&native, &handle, sizeof native);
    return driver.cuIpcOpenEventHandle(event, native);
  });
}
CUDART_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* devPtr) {
  return with_context(
      [&] { return driver.cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), to_driver(devPtr)); });
}
CUDART_API cudaError_t cudaIpcOpenMemHandle(void** devPtr, cudaIpcMemHandle_t handle, unsigned int flags) {
  return with_context([&] {
    CUipcMemHandle native;
    static_assert(sizeof native == sizeof handle);
    __builtin_memcpy(&native, &handle, sizeof native);
    return driver.cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(devPtr), native, flags);
  });
}
CUDART_API cudaError_t cudaIpcCloseMemHandle(void* devPtr) {
  return with_context([&] { return driver.cuIpcCloseMemHandle(to_driver(devPtr)); });
}

CUDART_API cudaError_t cudaImportExternalMemory(cudaExternalMemory_t* extMem_out,
                                                const cudaExternalMemoryHandleDesc* memHandleDesc) {
  return with_context([&] {
    return driver.cuImportExternalMemory(
        reinterpret_cast<CUexternalMemory*>(extMem_out),
        reinterpret_cast<const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*>(memHandleDesc));
  });
}
CUDART_API cudaError_t cudaExternalMemoryGetMappedBuffer(void** devPtr, cudaExternalMemory_t extMem,
                                                         const cudaExternalMemoryBufferDesc* bufferDesc) {
  return with_context([&] {
    return driver.cuExternalMemoryGetMappedBuffer(
        reinterpret_cast<CUdeviceptr*>(devPtr), as_driver(extMem),
        reinterpret_cast<const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*>(bufferDesc));
  });
}
CUDART_API cudaError_t
cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t* mipmap, cudaExternalMemory_t extMem,
                                          const cudaExternalMemoryMipmappedArrayDesc* mipmapDesc) {
  return with_context([&]() -> cudaError_t {
    if (mipmapDesc == nullptr) return cudaErrorInvalidValue;
    ArrayFormat format{};
    if (!to_driver(mipmapDesc->formatDesc, &format)) return cudaErrorInvalidChannelDescriptor;
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC native{};
    native.offset = mipmapDesc->offset;
    native.arrayDesc = array_descriptor(format, mipmapDesc->extent, mipmapDesc->flags);
    native.numLevels = mipmapDesc->numLevels;
    return to_runtime(driver.cuExternalMemoryGetMappedMipmappedArray(
        reinterpret_cast<CUmipmappedArray*>(mipmap), as_driver(extMem), &native));
  });
}
CUDART_API cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t extMem) {
  return with_context([&] { return driver.cuDestroyExternalMemory(as_driver(extMem)); });
}
CUDART_API cudaError_t cudaImportExternalSemaphore(cudaExternalSemaphore_t* extSem_out,
                                                   const cudaExternalSemaphoreHandleDesc* semHandleDesc) {
  return with_context([&] {
    return driver.cuImportExternalSemaphore(
        reinterpret_cast<CUexternalSemaphore*>(extSem_out),
        reinterpret_cast<const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC*>(semHandleDesc));
  });
}
CUDART_API cudaError_t cudaDestroyExternalSemaphore(cudaExternalSemaphore_t extSem) {
  return with_context([&] { return driver.cuDestroyExternalSemaphore(as_driver(extSem)); });
}
CUDART_DUAL(_ptsz, cudaSignalExternalSemaphoresAsync,
            (const cudaExternalSemaphore_t* extSemArray, const cudaExternalSemaphoreSignalParams* paramsArray,
             unsigned int numExtSems, cudaStream_t stream),
            signal, extSemArray, paramsArray, numExtSems, stream)
CUDART_DUAL(_ptsz, cudaWaitExternalSemaphoresAsync,
            (const cudaExternalSemaphore_t* extSemArray, const cudaExternalSemaphoreWaitParams* paramsArray,
             unsigned int numExtSems, cudaStream_t stream),
            wait, extSemArray, paramsArray, numExtSems, stream)

CUDART_API cudaError_t cudaGraphicsUnregisterResource(cudaGraphicsResource_t resource) {
  return with_context([&] { return driver.cuGraphicsUnregisterResource(as_driver(resource)); });
}
CUDART_API cudaError_t cudaGraphicsResourceSetMapFlags(cudaGraphicsResource_t resource, unsigned int flags) {
  return with_context([&] { return driver.cuGraphicsResourceSetMapFlags(as_driver(resource), flags); });
}
CUDART_API cudaError_t cudaGraphicsMapResources(int count, cudaGraphicsResource_t* resources,
                                                cudaStream_t stream) {
  return with_context([&]() -> cudaError_t {
    if (count < 0) return cudaErrorInvalidValue;
    return to_runtime(
        driver.cuGraphicsMapResources[kLegacy](static_cast<unsigned>(count), as_driver(resources), stream));
  });
}
CUDART_API cudaError_t cudaGraphicsUnmapResources(int count, cudaGraphicsResource_t* resources,
                                                  cudaStream_t stream) {
  return with_context([&]() -> cudaError_t {
    if (count < 0) return cudaErrorInvalidValue;
    return to_runtime(
        driver.cuGraphicsUnmapResources[kLegacy](static_cast<unsigned>(count), as_driver(resources), stream));
  });
}
CUDART_API cudaError_t cudaGraphicsResourceGetMappedPointer(void** devPtr, size_t* size,
                                                            cudaGraphicsResource_t resource) {
  return with_context([&] {
    return driver.cuGraphicsResourceGetMappedPointer(reinterpret_cast<CUdeviceptr*>(devPtr), size,
                                                     as_driver(resource));
  });
}
CUDART_API cudaError_t cudaGraphicsSubResourceGetMappedArray(cudaArray_t* array,
                                                             cudaGraphicsResource_t resource,
                                                             unsigned int arrayIndex, unsigned int mipLevel) {
  return with_context([&] {
    return driver.cuGraphicsSubResourceGetMappedArray(reinterpret_cast<CUarray*>(array), as_driver(resource),
                                                      arrayIndex, mipLevel);
  });
}
CUDART_API cudaError_t cudaGraphicsResourceGetMappedMipmappedArray(cudaMipmappedArray_t* mipmappedArray,
                                                                   cudaGraphicsResource_t resource) {
  return with_context([&] {
    return driver.cuGraphicsResourceGetMappedMipmappedArray(
        reinterpret_cast<CUmipmappedArray*>(mipmappedArray), as_driver(resource));
  });
}
