// Texture and surface objects.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

static_assert(sizeof(cudaResourceViewDesc) == sizeof(CUDA_RESOURCE_VIEW_DESC_v1));
static_assert(int(cudaResViewFormatUnsignedBlockCompressed7) == int(CU_RES_VIEW_FORMAT_UNSIGNED_BC7));

cudaError_t create_texture(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                           const cudaTextureDesc* description, const cudaResourceViewDesc* view) {
  if (texture == nullptr || resource == nullptr || description == nullptr) return cudaErrorInvalidValue;
  CUDA_RESOURCE_DESC_v1 native_resource{};
  if (const cudaError_t error = to_driver(*resource, &native_resource); error != cudaSuccess) return error;
  const CUDA_TEXTURE_DESC_v1 native_description = to_driver(*description);
  return to_runtime(driver.cuTexObjectCreate(texture, &native_resource, &native_description,
                                             reinterpret_cast<const CUDA_RESOURCE_VIEW_DESC_v1*>(view)));
}

}  // namespace

CUDART_API cudaError_t cudaCreateTextureObject(cudaTextureObject_t* pTexObject,
                                               const cudaResourceDesc* pResDesc,
                                               const cudaTextureDesc* pTexDesc,
                                               const cudaResourceViewDesc* pResViewDesc) {
  return with_context([&] { return create_texture(pTexObject, pResDesc, pTexDesc, pResViewDesc); });
}

CUDART_API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject) {
  return with_context([&]() -> cudaError_t {
    if (texObject == 0) return cudaSuccess;
    return to_runtime(driver.cuTexObjectDestroy(texObject));
  });
}

CUDART_API cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* pResDesc,
                                                        cudaTextureObject_t texObject) {
  return with_context([&]() -> cudaError_t {
    if (pResDesc == nullptr) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC_v1 native{};
    const CUresult result = driver.cuTexObjectGetResourceDesc(&native, texObject);
    return result == CUDA_SUCCESS ? to_runtime(native, pResDesc) : to_runtime(result);
  });
}

CUDART_API cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* pTexDesc,
                                                       cudaTextureObject_t texObject) {
  return with_context([&]() -> cudaError_t {
    if (pTexDesc == nullptr) return cudaErrorInvalidValue;
    CUDA_TEXTURE_DESC_v1 native{};
    const CUresult result = driver.cuTexObjectGetTextureDesc(&native, texObject);
    if (result == CUDA_SUCCESS) *pTexDesc = to_runtime(native);
    return to_runtime(result);
  });
}

CUDART_API cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* pResViewDesc,
                                                            cudaTextureObject_t texObject) {
  return with_context([&] {
    return driver.cuTexObjectGetResourceViewDesc(reinterpret_cast<CUDA_RESOURCE_VIEW_DESC_v1*>(pResViewDesc),
                                                 texObject);
  });
}

CUDART_API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* pSurfObject,
                                               const cudaResourceDesc* pResDesc) {
  return with_context([&]() -> cudaError_t {
    if (pSurfObject == nullptr || pResDesc == nullptr) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC_v1 native{};
    if (const cudaError_t error = to_driver(*pResDesc, &native); error != cudaSuccess) return error;
    return to_runtime(driver.cuSurfObjectCreate(pSurfObject, &native));
  });
}

CUDART_API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject) {
  return with_context([&]() -> cudaError_t {
    if (surfObject == 0) return cudaSuccess;
    return to_runtime(driver.cuSurfObjectDestroy(surfObject));
  });
}

CUDART_API cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* pResDesc,
                                                        cudaSurfaceObject_t surfObject) {
  return with_context([&]() -> cudaError_t {
    if (pResDesc == nullptr) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC_v1 native{};
    const CUresult result = driver.cuSurfObjectGetResourceDesc(&native, surfObject);
    return result == CUDA_SUCCESS ? to_runtime(native, pResDesc) : to_runtime(result);
  });
}
