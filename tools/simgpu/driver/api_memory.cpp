// Memory: device, pitched, pinned, registered and managed allocations, addresses and pointer attributes.
#include <algorithm>
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/graph_memory.h"
#include "tools/simgpu/driver/core/hooks.h"
#include "tools/simgpu/driver/core/host_pages.h"
#include "tools/simgpu/driver/core/ipc.h"
#include "tools/simgpu/driver/core/race.h"
#include "tools/simgpu/driver/core/shared_charge.h"
#include "tools/simgpu/driver/core/vmm.h"

using namespace simgpu::driver;

namespace {
constexpr unsigned kHostAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult allocate_device(Context& context, uint64_t bytes, CUdeviceptr* out) {
  SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, &context));
  SIMGPU_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("alloc", CUDA_ERROR_OUT_OF_MEMORY));
  DeviceHeap& heap = *context.device->heap;
  auto allocation = std::make_shared<Allocation>();
  allocation->base = heap.allocate(bytes);
  SIMGPU_REQUIRE(allocation->base, CUDA_ERROR_OUT_OF_MEMORY);
  allocation->size = bytes;
  allocation->kind = MemoryKind::device;
  allocation->device = context.device->ordinal;
  allocation->context_id = context.id;
  allocation->host = heap.host(allocation->base);
  allocation->sync_memops = context.flags & CU_CTX_SYNC_MEMOPS;
  MemoryMap::get().insert(allocation);
  *out = allocation->base;
  return CUDA_SUCCESS;
}

CUresult allocate_host(Context& context, uint64_t bytes, unsigned flags, MemoryKind kind, void** out) {
  SIMGPU_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, &context));
  SIMGPU_TRY(
      fault_point(kind == MemoryKind::managed ? "alloc_managed" : "alloc_host", CUDA_ERROR_OUT_OF_MEMORY));
  uint8_t* alias = nullptr;
  void* p = map_watched_memory(bytes, alias);
  SIMGPU_REQUIRE(p, CUDA_ERROR_OUT_OF_MEMORY);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = reinterpret_cast<uint64_t>(p);
  allocation->size = bytes;
  allocation->kind = kind;
  allocation->device = context.device->ordinal;
  allocation->context_id = context.id;
  allocation->host = alias;
  allocation->flags = flags;
  MemoryMap::get().insert(allocation);
  *out = p;
  return CUDA_SUCCESS;
}

// Freeing waits for the work that may still use the memory, as cuMemFree does.
CUresult wait_for_users(Lock& lock, Context& context) {
  const CUresult result = wait_for(lock, context, context_targets(context));
  if (races_watched()) race_host_synced(context);
  return result;
}

Context* owner_of(const Allocation& allocation, Context& current) {
  if (allocation.context_id == current.id) return &current;
  for (Device* device : platform()->devices) {
    if (device->primary && device->primary->id == allocation.context_id) return device->primary.get();
  }
  return &current;
}
}  // namespace

SIMGPU_API cuMemGetInfo_v2(size_t* free, size_t* total) {
  return api_call("cuMemGetInfo", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(free && total, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    settle_charges();
    // In the pages that allocations take, so that what is reported can be had.
    *free = platform()->box->free_bytes(context->device->box_index) / DeviceHeap::kPage * DeviceHeap::kPage;
    *total = context->device->memory_bytes();
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  return api_call("cuMemAlloc", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(dptr, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return allocate_device(*context, bytesize, dptr);
  });
}

SIMGPU_API cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                              unsigned int ElementSizeBytes) {
  return api_call("cuMemAllocPitch", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(dptr && pPitch && WidthInBytes && Height, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16,
                   CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(WidthInBytes <= 2147483647, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    const uint64_t pitch = (WidthInBytes + 511) / 512 * 512;
    SIMGPU_REQUIRE(Height <= UINT64_MAX / pitch, CUDA_ERROR_OUT_OF_MEMORY);
    SIMGPU_TRY(allocate_device(*context, pitch * Height, dptr));
    *pPitch = pitch;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemFree_v2(CUdeviceptr dptr) {
  return api_call("cuMemFree", kNeedsInit, [&](Lock& lock) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    if (!dptr) return CUDA_SUCCESS;
    AllocationRef allocation = known_allocation(dptr);
    SIMGPU_REQUIRE(allocation && allocation->base == dptr, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context));
    if (GraphAllocationRef memory = graph_allocation_at(dptr))
      return free_graph_memory(lock, memory, nullptr);
    if (allocation->kind == MemoryKind::pool) {
      return g_free_pool_memory ? g_free_pool_memory(lock, allocation) : CUDA_ERROR_NOT_SUPPORTED;
    }
    SIMGPU_REQUIRE(allocation->kind == MemoryKind::device || allocation->kind == MemoryKind::managed,
                   CUDA_ERROR_INVALID_VALUE);
    const CUresult waited = wait_for_users(lock, *owner_of(*allocation, *context));
    if (waited != CUDA_SUCCESS) return waited;
    if (!MemoryMap::get().erase(dptr)) return CUDA_ERROR_INVALID_VALUE;  // freed by another thread meanwhile
    ipc_forget(*allocation);
    if (allocation->kind == MemoryKind::managed) {
      unmap_watched_memory(reinterpret_cast<void*>(allocation->base), allocation->host, allocation->size);
    } else {
      device_at(allocation->device)->heap->release(dptr);
    }
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  return api_call("cuMemGetAddressRange", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    const AllocationRef allocation = known_allocation(dptr);
    SIMGPU_REQUIRE(allocation, CUDA_ERROR_NOT_FOUND);
    // Of mapped memory: the one mapping, not the reservation it lies in.
    const bool part = allocation->range_base && allocation->kind != MemoryKind::mapped;
    if (pbase) *pbase = part ? allocation->range_base : allocation->base;
    if (psize) *psize = part ? allocation->range_size : allocation->size;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return api_call("cuMemAllocHost", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pp, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return allocate_host(*context, bytesize, CU_MEMHOSTALLOC_DEVICEMAP, MemoryKind::pinned, pp);
  });
}

SIMGPU_API cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return api_call("cuMemHostAlloc", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pp && !(Flags & ~kHostAllocFlags), CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return allocate_host(*context, bytesize, Flags | CU_MEMHOSTALLOC_DEVICEMAP, MemoryKind::pinned, pp);
  });
}

SIMGPU_API cuMemFreeHost(void* p) {
  return api_call("cuMemFreeHost", kNeedsInit, [&](Lock& lock) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    if (!p) return CUDA_SUCCESS;
    const AllocationRef allocation = MemoryMap::get().at(reinterpret_cast<uint64_t>(p));
    SIMGPU_REQUIRE(allocation && allocation->kind == MemoryKind::pinned, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context));
    SIMGPU_TRY(wait_for_users(lock, *owner_of(*allocation, *context)));
    if (!MemoryMap::get().erase(allocation->base)) return CUDA_ERROR_INVALID_VALUE;
    unmap_watched_memory(p, allocation->host, allocation->size);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  return api_call("cuMemHostGetDevicePointer", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pdptr && p && Flags == 0, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    const AllocationRef allocation = MemoryMap::get().find(reinterpret_cast<uint64_t>(p));
    SIMGPU_REQUIRE(
        allocation && (allocation->kind == MemoryKind::pinned || allocation->kind == MemoryKind::registered),
        CUDA_ERROR_INVALID_VALUE);
    *pdptr = reinterpret_cast<CUdeviceptr>(p);  // unified addressing: one address for both
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  return api_call("cuMemHostGetFlags", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pFlags, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    const AllocationRef allocation = MemoryMap::get().find(reinterpret_cast<uint64_t>(p));
    SIMGPU_REQUIRE(
        allocation && (allocation->kind == MemoryKind::pinned || allocation->kind == MemoryKind::registered),
        CUDA_ERROR_INVALID_VALUE);
    *pFlags = allocation->flags;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  return api_call("cuMemHostRegister", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(p && bytesize && !(Flags & ~kRegisterFlags), CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context));
    SIMGPU_REQUIRE(!(Flags & CU_MEMHOSTREGISTER_IOMEMORY), CUDA_ERROR_NOT_SUPPORTED);
    SIMGPU_TRY(fault_point("register", CUDA_ERROR_OUT_OF_MEMORY));
    const uint64_t base = reinterpret_cast<uint64_t>(p);
    SIMGPU_REQUIRE(!MemoryMap::get().overlaps(base, bytesize), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    uint64_t begin, end;
    bool writable;
    SIMGPU_REQUIRE(host_range_mapped(base, begin, end, writable), CUDA_ERROR_INVALID_VALUE);
    auto allocation = std::make_shared<Allocation>();
    allocation->base = base;
    allocation->size = bytesize;
    allocation->kind = MemoryKind::registered;
    allocation->device = context->device->ordinal;
    allocation->context_id = context->id;
    allocation->host = static_cast<uint8_t*>(p);
    allocation->flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP;
    allocation->read_only = Flags & CU_MEMHOSTREGISTER_READ_ONLY;
    MemoryMap::get().insert(allocation);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return cuMemHostRegister_v2(p, bytesize, Flags);
}

SIMGPU_API cuMemHostUnregister(void* p) {
  return api_call("cuMemHostUnregister", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    const AllocationRef allocation = MemoryMap::get().at(reinterpret_cast<uint64_t>(p));
    SIMGPU_REQUIRE(allocation && allocation->kind == MemoryKind::registered,
                   CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context));
    SIMGPU_TRY(wait_for_users(lock, *owner_of(*allocation, *context)));
    MemoryMap::get().erase(allocation->base);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  return api_call("cuMemAllocManaged", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(dptr && bytesize, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    void* p = nullptr;
    SIMGPU_TRY(allocate_host(*context, bytesize, flags, MemoryKind::managed, &p));
    *dptr = reinterpret_cast<CUdeviceptr>(p);
    return CUDA_SUCCESS;
  });
}

namespace {
CUcontext context_handle(uint64_t id) {
  for (Device* device : platform()->devices) {
    if (device->primary && device->primary->id == id) return handle_of<CUcontext>(*device->primary);
  }
  Context* current = current_context();
  return current && current->id == id ? handle_of<CUcontext>(*current) : nullptr;
}

// Width in bytes of each attribute's value; writing more would overwrite the program's memory.
CUresult pointer_attribute(CUpointer_attribute attribute, CUdeviceptr ptr, void* data) {
  const AllocationRef a = known_allocation(ptr);
  auto put = [&](auto value) {
    memcpy(data, &value,
           sizeof value);  // NOLINT(bugprone-sizeof-expression): of the pointer, where it is one
    return CUDA_SUCCESS;
  };
  const bool on_device = a && !a->host_visible() && a->device >= 0;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(context_handle(a->context_id));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(
          unsigned(on_device || a->kind == MemoryKind::managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(ptr);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      SIMGPU_REQUIRE(a && !on_device, CUDA_ERROR_INVALID_VALUE);
      return put(ptr);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(unsigned(a->sync_memops));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put((unsigned long long)(a->id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(unsigned(a->kind == MemoryKind::managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(a->device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(unsigned(a->kind == MemoryKind::device));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
      // Also of a reservation with nothing mapped there.
      uint64_t base = 0, size = 0;
      SIMGPU_REQUIRE(a || in_reservation(ptr, &base, &size), CUDA_ERROR_INVALID_VALUE);
      if (a) base = a->range_base ? a->range_base : a->base;
      if (a) size = a->range_base ? a->range_size : a->size;
      return attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? put(size_t(size)) : put(CUdeviceptr(base));
    }
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(unsigned(a != nullptr));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(
          (unsigned long long)(a->kind == MemoryKind::mapped || a->kind == MemoryKind::pool ? a->flags : 0));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(unsigned(0));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      Context* context = current_context();
      bool writable = false;
      const bool access = context && may_access(*context, *a, writable);
      return put((unsigned long long)(!access    ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                                      : writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                                 : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ));
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      SIMGPU_REQUIRE(a && a->kind == MemoryKind::pool && g_pool_of, CUDA_ERROR_INVALID_VALUE);
      return put(g_pool_of(*a));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(size_t(a->size));
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      SIMGPU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
      return put(a->base);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// cuPointerGetAttributes answers neutral values where the single form fails.
size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return 4;
    default:
      return 8;
  }
}
}  // namespace

SIMGPU_API cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return api_call("cuPointerGetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(data, CUDA_ERROR_INVALID_VALUE);
    return pointer_attribute(attribute, ptr, data);
  });
}

SIMGPU_API cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                  CUdeviceptr ptr) {
  return api_call("cuPointerGetAttributes", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(numAttributes && attributes && data, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < numAttributes; ++i) {
      SIMGPU_REQUIRE(attributes[i] >= CU_POINTER_ATTRIBUTE_CONTEXT &&
                         attributes[i] <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
                     CUDA_ERROR_INVALID_VALUE);
      SIMGPU_REQUIRE(data[i], CUDA_ERROR_INVALID_VALUE);
      if (pointer_attribute(attributes[i], ptr, data[i]) == CUDA_SUCCESS) continue;
      memset(data[i], 0, attribute_bytes(attributes[i]));
      if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        const int none = CU_DEVICE_INVALID;
        memcpy(data[i], &none, sizeof none);
      }
    }
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return api_call("cuPointerSetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
    const AllocationRef a = MemoryMap::get().find(ptr);
    SIMGPU_REQUIRE(a && a->kind == MemoryKind::device, CUDA_ERROR_INVALID_VALUE);
    unsigned on;
    memcpy(&on, value, sizeof on);
    a->sync_memops = on;
    return CUDA_SUCCESS;
  });
}
