// Texture and surface objects. Texture references (the interface before objects) are not supported.
#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/texture.h"

using namespace simgpu::driver;

SIMGPU_API cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                             const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  return api_call("cuTexObjectCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pTexObject && pResDesc && pTexDesc, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    uint64_t handle = 0;
    SIMGPU_TRY(create_texture(*context, *pResDesc, *pTexDesc, pResViewDesc, handle));
    *pTexObject = handle;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuTexObjectDestroy(CUtexObject texObject) {
  return api_call("cuTexObjectDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    return drop_texture(texObject, false) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
SIMGPU_API cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
  return api_call("cuTexObjectGetResourceDesc", kNeedsInit, [&](Lock&) -> CUresult {
    const auto t = find_texture(texObject, false);
    SIMGPU_REQUIRE(pResDesc && t, CUDA_ERROR_INVALID_VALUE);
    *pResDesc = t->resource;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
  return api_call("cuTexObjectGetTextureDesc", kNeedsInit, [&](Lock&) -> CUresult {
    const auto t = find_texture(texObject, false);
    SIMGPU_REQUIRE(pTexDesc && t, CUDA_ERROR_INVALID_VALUE);
    *pTexDesc = t->texture;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc, CUtexObject texObject) {
  return api_call("cuTexObjectGetResourceViewDesc", kNeedsInit, [&](Lock&) -> CUresult {
    const auto t = find_texture(texObject, false);
    SIMGPU_REQUIRE(pResViewDesc && t && t->has_view, CUDA_ERROR_INVALID_VALUE);
    *pResViewDesc = t->view;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
  return api_call("cuSurfObjectCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pSurfObject && pResDesc, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    uint64_t handle = 0;
    SIMGPU_TRY(create_surface(*context, *pResDesc, handle));
    *pSurfObject = handle;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuSurfObjectDestroy(CUsurfObject surfObject) {
  return api_call("cuSurfObjectDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    return drop_texture(surfObject, true) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
SIMGPU_API cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
  return api_call("cuSurfObjectGetResourceDesc", kNeedsInit, [&](Lock&) -> CUresult {
    const auto t = find_texture(surfObject, true);
    SIMGPU_REQUIRE(pResDesc && t, CUDA_ERROR_INVALID_VALUE);
    *pResDesc = t->resource;
    return CUDA_SUCCESS;
  });
}
