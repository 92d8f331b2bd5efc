// Stream-ordered allocation and memory pools. How a pool chooses its blocks: core/pool.cpp.
#include <fcntl.h>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/hooks.h"
#include "tools/simgpu/driver/core/ipc.h"
#include "tools/simgpu/driver/core/pool.h"

using namespace simgpu::driver;

namespace {
CUresult allocate(Lock& lock, CUdeviceptr* out, size_t bytes, CUmemoryPool handle, bool named,
                  CUstream stream_handle) {
  SIMGPU_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(stream_handle, stream, context));
  std::shared_ptr<MemoryPool> pool;
  if (named) {
    MemoryPool* p = lookup<MemoryPool>(handle);
    SIMGPU_REQUIRE(p && !p->imported, CUDA_ERROR_INVALID_VALUE);
    pool = shared(p);
  } else {
    pool = current_pool(stream->device);
  }
  SIMGPU_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
  if (!stream->capture) return pool_allocate(lock, pool, bytes, stream, *out);
  // The graph owns what is allocated in a capture; the pool only says where and for whom.
  SIMGPU_REQUIRE(g_capture_alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps = pool->props;
  params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  params.bytesize = bytes;
  std::vector<CUmemAccessDesc> access;
  for (size_t i = 0; i < pool->rights.size(); ++i) {
    if (int(i) == pool->device || pool->rights[i] != 3) continue;
    CUmemAccessDesc desc = {};
    desc.location = {CU_MEM_LOCATION_TYPE_DEVICE, int(i)};
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    access.push_back(desc);
  }
  params.accessDescs = access.data();
  params.accessDescCount = access.size();
  SIMGPU_TRY(g_capture_alloc(stream, params));
  *out = params.dptr;
  return CUDA_SUCCESS;
}

// Device ordinal of a location; -1 for the host.
CUresult place_of(const CUmemLocation* location, CUmemAllocationType type, int& device) {
  SIMGPU_REQUIRE(location, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(type != CU_MEM_ALLOCATION_TYPE_MANAGED, CUDA_ERROR_NOT_SUPPORTED);
  SIMGPU_REQUIRE(type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      SIMGPU_REQUIRE(device_at(location->id), CUDA_ERROR_INVALID_DEVICE);
      device = location->id;
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
      device = -1;
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      SIMGPU_REQUIRE(location->id == 0, CUDA_ERROR_NOT_SUPPORTED);
      device = -1;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
CUresult set_pool(int device, CUmemoryPool handle) {
  MemoryPool* pool = lookup<MemoryPool>(handle);
  SIMGPU_REQUIRE(pool && !pool->imported && pool->device == device, CUDA_ERROR_INVALID_VALUE);
  set_current_pool(device, shared(pool));
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return api_call("cuMemAllocAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return allocate(lock, dptr, bytesize, nullptr, false, hStream);
  });
}
SIMGPU_API cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  return api_call("cuMemAllocFromPoolAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return allocate(lock, dptr, bytesize, pool, true, hStream);
  });
}

SIMGPU_API cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return api_call("cuMemFreeAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    std::shared_ptr<Stream> stream;
    std::shared_ptr<Context> context;
    SIMGPU_TRY(resolve_stream(hStream, stream, context));
    if (!dptr) return CUDA_SUCCESS;
    if (stream->capture) {
      SIMGPU_REQUIRE(g_capture_free, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      return g_capture_free(stream, dptr);
    }
    if (g_free_graph_memory) {
      bool handled = false;
      const CUresult result = g_free_graph_memory(lock, stream, dptr, handled);
      if (handled) return result;
    }
    const AllocationRef allocation = known_allocation(dptr);
    SIMGPU_REQUIRE(allocation && allocation->base == dptr, CUDA_ERROR_INVALID_VALUE);
    if (allocation->kind == MemoryKind::pool) return pool_free_async(lock, allocation, stream);
    // Memory of cuMemAlloc: freed like cuMemFree, which waits for everything. Managed memory is never
    // stream-ordered.
    SIMGPU_REQUIRE(allocation->kind == MemoryKind::device, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(wait_for(lock, *context, context_targets(*context)));
    SIMGPU_REQUIRE(MemoryMap::get().at(dptr) == allocation, CUDA_ERROR_INVALID_VALUE);
    MemoryMap::get().erase(dptr);
    ipc_forget(*allocation);
    device_at(allocation->device)->heap->release(dptr);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  return api_call("cuMemPoolCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pool && poolProps, CUDA_ERROR_INVALID_VALUE);
    std::shared_ptr<MemoryPool> made;
    SIMGPU_TRY(create_pool(*poolProps, made));
    *pool = handle_of<CUmemoryPool>(*made);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemPoolDestroy(CUmemoryPool pool) {
  return api_call("cuMemPoolDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(pool);
    SIMGPU_REQUIRE(p && !p->is_default, CUDA_ERROR_INVALID_VALUE);
    destroy_pool(shared(p));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  return api_call("cuMemPoolTrimTo", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(pool);
    SIMGPU_REQUIRE(p && !p->imported, CUDA_ERROR_INVALID_VALUE);
    pool_trim(*p, minBytesToKeep);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return api_call("cuMemPoolSetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(pool);
    SIMGPU_REQUIRE(p && value, CUDA_ERROR_INVALID_VALUE);
    switch (attr) {
      case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        p->follow_events = *static_cast<int*>(value) != 0;
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        p->opportunistic = *static_cast<int*>(value) != 0;
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        p->internal_dependencies = *static_cast<int*>(value) != 0;
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        p->release_threshold = *static_cast<cuuint64_t*>(value);
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        SIMGPU_REQUIRE(*static_cast<cuuint64_t*>(value) == 0, CUDA_ERROR_INVALID_VALUE);
        p->reserved_high = p->reserved;
        return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        SIMGPU_REQUIRE(*static_cast<cuuint64_t*>(value) == 0, CUDA_ERROR_INVALID_VALUE);
        p->used_high = p->used;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}
SIMGPU_API cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return api_call("cuMemPoolGetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(pool);
    SIMGPU_REQUIRE(p && value, CUDA_ERROR_INVALID_VALUE);
    auto number = [&](uint64_t v) {
      *static_cast<cuuint64_t*>(value) = v;
      return CUDA_SUCCESS;
    };
    auto flag = [&](int v) {
      *static_cast<int*>(value) = v;
      return CUDA_SUCCESS;
    };
    switch (attr) {
      case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        return flag(p->follow_events);
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        return flag(p->opportunistic);
      case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return flag(p->internal_dependencies);
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return number(p->release_threshold);
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return number(p->reserved);
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return number(p->reserved_high);
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return number(p->used);
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return number(p->used_high);
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

SIMGPU_API cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  return api_call("cuMemPoolSetAccess", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(pool);
    SIMGPU_REQUIRE(p && (map || !count), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; ++i) {
      SIMGPU_REQUIRE(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
      const Device* device = device_at(map[i].location.id);
      SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
      const int flags = int(map[i].flags);
      SIMGPU_REQUIRE(flags == 0 || flags == 1 || flags == 3, CUDA_ERROR_INVALID_VALUE);
      // Its own device always has access.
      SIMGPU_REQUIRE(device->ordinal != p->device || flags == 3, CUDA_ERROR_INVALID_VALUE);
      if (p->device >= 0 && device->ordinal != p->device && flags)
        SIMGPU_REQUIRE(device->can_access_peer(*device_at(p->device)), CUDA_ERROR_INVALID_DEVICE);
    }
    for (size_t i = 0; i < count; ++i) pool_set_rights(*p, map[i].location.id, uint8_t(map[i].flags));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
  return api_call("cuMemPoolGetAccess", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(memPool);
    SIMGPU_REQUIRE(p && flags && location, CUDA_ERROR_INVALID_VALUE);
    if (location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
      *flags = p->device < 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    }
    SIMGPU_REQUIRE(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(device_at(location->id), CUDA_ERROR_INVALID_DEVICE);
    *flags = CUmemAccess_flags(p->rights[size_t(location->id)]);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  return api_call("cuDeviceGetDefaultMemPool", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pool_out, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *pool_out = handle_of<CUmemoryPool>(*default_pool(dev));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  return api_call("cuDeviceGetMemPool", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pool, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *pool = handle_of<CUmemoryPool>(*current_pool(dev));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  return api_call("cuDeviceSetMemPool", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    return set_pool(dev, pool);
  });
}
SIMGPU_API cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
  return api_call("cuMemGetDefaultMemPool", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pool_out, CUDA_ERROR_INVALID_VALUE);
    int device = -1;
    SIMGPU_TRY(place_of(location, type, device));
    *pool_out = handle_of<CUmemoryPool>(*default_pool(device));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  return api_call("cuMemGetMemPool", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pool, CUDA_ERROR_INVALID_VALUE);
    int device = -1;
    SIMGPU_TRY(place_of(location, type, device));
    *pool = handle_of<CUmemoryPool>(*current_pool(device));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return api_call("cuMemSetMemPool", kNeedsInit, [&](Lock&) -> CUresult {
    int device = -1;
    SIMGPU_TRY(place_of(location, type, device));
    return set_pool(device, pool);
  });
}

SIMGPU_API cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool,
                                            CUmemAllocationHandleType handleType, unsigned long long flags) {
  return api_call("cuMemPoolExportToShareableHandle", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(pool);
    SIMGPU_REQUIRE(p && handle_out && flags == 0, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    return pool_export(*p, *static_cast<int*>(handle_out));
  });
}
SIMGPU_API cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags) {
  return api_call("cuMemPoolImportFromShareableHandle", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pool_out && flags == 0, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    std::shared_ptr<MemoryPool> pool;
    SIMGPU_TRY(pool_import(int(reinterpret_cast<intptr_t>(handle)), pool));
    *pool_out = handle_of<CUmemoryPool>(*pool);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  return api_call("cuMemPoolExportPointer", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(shareData_out && ptr, CUDA_ERROR_INVALID_VALUE);
    return pool_export_pointer(ptr, *shareData_out);
  });
}
SIMGPU_API cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                  CUmemPoolPtrExportData* shareData) {
  return api_call("cuMemPoolImportPointer", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryPool* p = lookup<MemoryPool>(pool);
    SIMGPU_REQUIRE(ptr_out && p && shareData, CUDA_ERROR_INVALID_VALUE);
    return pool_import_pointer(shared(p), *shareData, *ptr_out);
  });
}
