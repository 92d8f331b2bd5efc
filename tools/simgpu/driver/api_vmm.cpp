// Virtual memory management: reservations, physical memory, mappings, access, export and import. No context
// is needed: the device comes from the properties. The rules: core/vmm.cpp.
#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/vmm.h"

using namespace simgpu::driver;

SIMGPU_API cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                               unsigned long long flags) {
  return api_call("cuMemAddressReserve", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(ptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    return vmm_reserve(size, alignment, addr, *ptr);
  });
}

SIMGPU_API cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return api_call("cuMemAddressFree", kNeedsInit,
                  [&](Lock&) -> CUresult { return vmm_free_range(ptr, size); });
}

SIMGPU_API cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                       unsigned long long flags) {
  return api_call("cuMemCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(handle && prop && flags == 0, CUDA_ERROR_INVALID_VALUE);
    return vmm_create(*prop, size, *handle);
  });
}

SIMGPU_API cuMemRelease(CUmemGenericAllocationHandle handle) {
  return api_call("cuMemRelease", kNeedsInit, [&](Lock&) -> CUresult {
    MemoryHandle* memory = vmm_handle(handle);
    SIMGPU_REQUIRE(memory, CUDA_ERROR_INVALID_VALUE);
    vmm_release(*memory);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return api_call("cuMemRetainAllocationHandle", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(handle && addr, CUDA_ERROR_INVALID_VALUE);
    const MemoryHandle* memory = vmm_retain(reinterpret_cast<uint64_t>(addr));
    SIMGPU_REQUIRE(memory, CUDA_ERROR_INVALID_VALUE);
    *handle = memory->handle;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
  return api_call("cuMemMap", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(flags == 0 && offset == 0, CUDA_ERROR_INVALID_VALUE);
    MemoryHandle* memory = vmm_handle(handle);
    SIMGPU_REQUIRE(memory, CUDA_ERROR_INVALID_VALUE);
    return vmm_map(ptr, size, *memory);
  });
}

SIMGPU_API cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return api_call("cuMemUnmap", kNeedsInit,
                  [&](Lock& lock) -> CUresult { return vmm_unmap(lock, ptr, size); });
}

SIMGPU_API cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  return api_call("cuMemSetAccess", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(desc && count, CUDA_ERROR_INVALID_VALUE);
    return vmm_set_access(lock, ptr, size, desc, count);
  });
}

SIMGPU_API cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  return api_call("cuMemGetAccess", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(flags && location, CUDA_ERROR_INVALID_VALUE);
    return vmm_get_access(ptr, *location, *flags);
  });
}

SIMGPU_API cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                         CUmemAllocationGranularity_flags option) {
  return api_call("cuMemGetAllocationGranularity", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(granularity && prop, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(
        option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
        CUDA_ERROR_INVALID_VALUE);
    const CUresult known = check_properties(*prop);
    // The device is no error of its own here: the documentation lists none.
    if (known != CUDA_SUCCESS) return known == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_INVALID_VALUE : known;
    *granularity = kVmmGranularity;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                  CUmemGenericAllocationHandle handle) {
  return api_call("cuMemGetAllocationPropertiesFromHandle", kNeedsInit, [&](Lock&) -> CUresult {
    const MemoryHandle* memory = vmm_handle(handle);
    SIMGPU_REQUIRE(prop && memory, CUDA_ERROR_INVALID_VALUE);
    *prop = memory->prop;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                        CUmemAllocationHandleType handleType, unsigned long long flags) {
  return api_call("cuMemExportToShareableHandle", kNeedsInit, [&](Lock&) -> CUresult {
    const MemoryHandle* memory = vmm_handle(handle);
    SIMGPU_REQUIRE(shareableHandle && memory && flags == 0, CUDA_ERROR_INVALID_VALUE);
    // Only the types asked for when it was made, and one at a time.
    SIMGPU_REQUIRE(handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                       (memory->prop.requestedHandleTypes & handleType),
                   CUDA_ERROR_INVALID_VALUE);
    return vmm_export(*memory, *static_cast<int*>(shareableHandle));
  });
}

SIMGPU_API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                          CUmemAllocationHandleType shHandleType) {
  return api_call("cuMemImportFromShareableHandle", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(handle, CUDA_ERROR_INVALID_VALUE);
    switch (shHandleType) {
      case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
        return vmm_import(int(reinterpret_cast<intptr_t>(osHandle)), *handle);
      case CU_MEM_HANDLE_TYPE_WIN32:
      case CU_MEM_HANDLE_TYPE_WIN32_KMT:
      case CU_MEM_HANDLE_TYPE_FABRIC:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}
