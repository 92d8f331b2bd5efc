// CUDA arrays and mipmapped arrays. Sparse, deferred-mapping, cube-map and planar arrays are not supported.
#include "tools/simgpu/driver/core/array.h"
#include "tools/simgpu/driver/core/call.h"

using namespace simgpu::driver;

namespace {
CUDA_ARRAY3D_DESCRIPTOR widen(const CUDA_ARRAY_DESCRIPTOR& p) {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = p.Width, d.Height = p.Height;
  d.Format = p.Format, d.NumChannels = p.NumChannels;
  return d;
}
CUresult create(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR& desc) {
  Context* context;
  SIMGPU_TRY(require_context(context));
  std::shared_ptr<Array> array;
  SIMGPU_TRY(create_array(*context, desc, array));
  *handle = handle_of<CUarray>(*array);
  return CUDA_SUCCESS;
}
// Destruction waits for the work that may still use the array, as freeing memory does.
CUresult wait_for_users(Lock& lock, const std::weak_ptr<Context>& owner) {
  auto context = owner.lock();
  return context ? wait_for(lock, *context, context_targets(*context)) : CUDA_SUCCESS;
}
CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUdevice device, uint64_t bytes) {
  SIMGPU_REQUIRE(device_at(device), CUDA_ERROR_INVALID_DEVICE);
  *out = {};
  out->alignment = 65536;
  out->size = (bytes + out->alignment - 1) / out->alignment * out->alignment;
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  return api_call("cuArrayCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pHandle && pAllocateArray, CUDA_ERROR_INVALID_VALUE);
    return create(pHandle, widen(*pAllocateArray));
  });
}
SIMGPU_API cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  return api_call("cuArray3DCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pHandle && pAllocateArray, CUDA_ERROR_INVALID_VALUE);
    return create(pHandle, *pAllocateArray);
  });
}
SIMGPU_API cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  return api_call("cuArrayGetDescriptor", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pArrayDescriptor, CUDA_ERROR_INVALID_VALUE);
    const Array* array = lookup<Array>(hArray);
    SIMGPU_REQUIRE(array, CUDA_ERROR_INVALID_HANDLE);
    *pArrayDescriptor = {array->desc.Width, array->desc.Height, array->desc.Format, array->desc.NumChannels};
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  return api_call("cuArray3DGetDescriptor", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pArrayDescriptor, CUDA_ERROR_INVALID_VALUE);
    const Array* array = lookup<Array>(hArray);
    SIMGPU_REQUIRE(array, CUDA_ERROR_INVALID_HANDLE);
    *pArrayDescriptor = array->desc;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuArrayDestroy(CUarray hArray) {
  return api_call("cuArrayDestroy", kNeedsInit, [&](Lock& lock) -> CUresult {
    Array* array = lookup<Array>(hArray);
    SIMGPU_REQUIRE(array && !array->level, CUDA_ERROR_INVALID_HANDLE);
    auto keep = shared(array);
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, array->context.lock().get()));
    SIMGPU_TRY(wait_for_users(lock, array->context));
    array->memory->release();
    drop_handle(*array);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements, CUarray array,
                                        CUdevice device) {
  return api_call("cuArrayGetMemoryRequirements", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(memoryRequirements, CUDA_ERROR_INVALID_VALUE);
    const Array* a = lookup<Array>(array);
    SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_HANDLE);
    return requirements(memoryRequirements, device, a->slice * a->planes);
  });
}

SIMGPU_API cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                  const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                  unsigned int numMipmapLevels) {
  return api_call("cuMipmappedArrayCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pHandle && pMipmappedArrayDesc, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    std::shared_ptr<MipmappedArray> mipmap;
    SIMGPU_TRY(create_mipmapped(*context, *pMipmappedArrayDesc, numMipmapLevels, mipmap));
    *pHandle = handle_of<CUmipmappedArray>(*mipmap);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray,
                                    unsigned int level) {
  return api_call("cuMipmappedArrayGetLevel", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pLevelArray, CUDA_ERROR_INVALID_VALUE);
    const MipmappedArray* mipmap = lookup<MipmappedArray>(hMipmappedArray);
    SIMGPU_REQUIRE(mipmap, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_REQUIRE(level < mipmap->levels.size(), CUDA_ERROR_INVALID_VALUE);
    *pLevelArray = handle_of<CUarray>(*mipmap->levels[level]);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  return api_call("cuMipmappedArrayDestroy", kNeedsInit, [&](Lock& lock) -> CUresult {
    MipmappedArray* mipmap = lookup<MipmappedArray>(hMipmappedArray);
    SIMGPU_REQUIRE(mipmap, CUDA_ERROR_INVALID_HANDLE);
    auto keep = shared(mipmap);
    SIMGPU_TRY(wait_for_users(lock, mipmap->context));
    mipmap->memory->release();
    for (const auto& level : mipmap->levels) drop_handle(*level);
    drop_handle(*mipmap);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements,
                                                 CUmipmappedArray mipmap, CUdevice device) {
  return api_call("cuMipmappedArrayGetMemoryRequirements", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(memoryRequirements, CUDA_ERROR_INVALID_VALUE);
    const MipmappedArray* m = lookup<MipmappedArray>(mipmap);
    SIMGPU_REQUIRE(m, CUDA_ERROR_INVALID_HANDLE);
    return requirements(memoryRequirements, device, m->memory->bytes);
  });
}
