// Registered buffers, symmetric windows and NCCL's allocator. Windows are made of memory from the driver's
// virtual memory management, by all ranks together; where devices have no peer access there are none, and
// NCCL says so by leaving the window NULL.
#include "tools/simgpu/nccl/registration.h"

#include <stdlib.h>
#include <string.h>

#include "tools/simgpu/nccl/api.h"
#include "tools/simgpu/nccl/group.h"

namespace simgpu::nccl {

namespace {

// NCCL's own switch for memory that it shares by handle.
bool by_handle() {
  const char* setting = getenv("NCCL_CUMEM_ENABLE");
  return !setting || strcmp(setting, "0") != 0;
}
bool symmetric_memory(const ncclComm& comm) {
  if (!by_handle()) return false;
  const auto& slots = comm.clique->memory().slot;
  for (int a = 0; a < comm.ranks; ++a)
    for (int b = a + 1; b < comm.ranks; ++b)
      if (driver().link_bytes_per_s(slots[a].cuda_device, slots[b].cuda_device) <= 0) return false;
  return true;
}

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}

CUresult allocate(int device, size_t bytes, CUdeviceptr& out) {
  const Driver& d = driver();
  const CUmemAllocationProp prop = properties(device);
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult r = d.cuMemCreate(&handle, bytes, &prop, 0); r != CUDA_SUCCESS) return r;
  CUresult result = d.cuMemAddressReserve(&out, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = d.cuMemMap(out, bytes, 0, handle, 0);
    int devices = 0;
    d.cuDeviceGetCount(&devices);
    for (int i = 0; i < devices && result == CUDA_SUCCESS; ++i) {
      int reaches = i == device;
      if (!reaches && (d.cuDeviceCanAccessPeer(&reaches, i, device) != CUDA_SUCCESS || !reaches)) continue;
      const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {i}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      result = d.cuMemSetAccess(out, bytes, &access, 1);
    }
    if (result != CUDA_SUCCESS) {
      d.cuMemUnmap(out, bytes);
      d.cuMemAddressFree(out, bytes);
    }
  }
  d.cuMemRelease(handle);  // the mapping keeps it
  return result;
}

bool covers(uint64_t begin, uint64_t bytes, uint64_t address, uint64_t wanted) {
  return address >= begin && wanted <= bytes && address - begin <= bytes - wanted;
}

}  // namespace

Standing standing(ncclComm& comm, const Operation& o) {
  Standing s;
  int used = 0, registered = 0, symmetric = 0;
  std::lock_guard lock(comm.mutex);
  const auto look = [&](uint64_t address, uint64_t bytes, uint64_t& offset) {
    if (bytes == 0) return;
    ++used;
    bool known = false;
    for (const auto& [begin, size] : comm.registered) known = known || covers(begin, size, address, bytes);
    for (const auto& window : comm.windows) {
      if (!window->live || !covers(window->address, window->bytes, address, bytes)) continue;
      known = true;
      if (!window->symmetric) continue;
      ++symmetric;
      offset = address - window->address;
      break;
    }
    registered += known;
  };
  look(o.in, o.in_bytes, s.in_offset);
  look(o.out, o.out_bytes, s.out_offset);
  s.registered = registered == 0 ? Standing::none : registered == used ? Standing::all : Standing::some;
  s.symmetric = used > 0 && symmetric == used;
  return s;
}

}  // namespace simgpu::nccl

using namespace simgpu::nccl;

NCCL_FUNCTION(ncclCommRegister, (const ncclComm_t comm, void* buffer, size_t size, void** handle),
              (comm, buffer, size, handle)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!handle || size == 0)
    return fail(comm, ncclInvalidArgument,
                "ncclCommRegister needs a buffer, a size and a place for the handle");
  std::lock_guard lock(comm->mutex);
  comm->registered.emplace_back(reinterpret_cast<uint64_t>(buffer), size);
  *handle = reinterpret_cast<void*>(comm->registered.size());
  return ncclSuccess;
}
NCCL_FUNCTION(ncclCommDeregister, (const ncclComm_t comm, void* handle), (comm, handle)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  const size_t index = reinterpret_cast<size_t>(handle);
  if (index == 0) return ncclSuccess;
  {
    std::lock_guard lock(comm->mutex);
    if (index <= comm->registered.size() && comm->registered[index - 1].second != 0) {
      comm->registered[index - 1].second = 0;
      return ncclSuccess;
    }
  }
  return fail(comm, ncclInvalidArgument, "the handle was not given out by ncclCommRegister");
}

NCCL_FUNCTION(ncclCommWindowRegister,
              (ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int flags),
              (comm, buffer, size, window, flags)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!window) return fail(comm, ncclInvalidArgument, "ncclCommWindowRegister needs a place for the window");
  if (const ncclResult_t r = check_settled(comm); r != ncclSuccess) return refuse(r);
  *window = nullptr;
  if (!buffer || size == 0 || !symmetric_memory(*comm)) return ncclSuccess;
  const auto address = reinterpret_cast<uint64_t>(buffer);
  CUdeviceptr base = 0;
  size_t whole = 0;
  if (driver().cuMemGetAddressRange_v2(&base, &whole, address) != CUDA_SUCCESS)
    return refuse(fail(comm, ncclUnhandledCudaError, "the window is no device memory"));
  if ((address - base) % NCCL_WIN_REQUIRED_ALIGNMENT)
    return refuse(fail(comm, ncclInvalidArgument, "a window starts at a multiple of 4096 bytes"));
  CUmemGenericAllocationHandle handle = 0;
  if (driver().cuMemRetainAllocationHandle(&handle, buffer) != CUDA_SUCCESS)
    return refuse(fail(comm, ncclUnhandledCudaError,
                       "a window needs memory from ncclMemAlloc or cuMemCreate, which others can map"));
  driver().cuMemRelease(handle);
  auto turn = std::make_shared<uint64_t>(0);
  return enqueue_init(comm, {[=] {
                               *turn = comm->clique->announce(comm->rank, 0, 0);
                               return ncclSuccess;
                             },
                             [=] {
                               std::string missing;
                               if (!comm->clique->await(*turn, timeout_s(), missing))
                                 return fail(comm, ncclSystemError,
                                             "ncclCommWindowRegister: rank " + missing + " never called it");
                               auto made = std::make_unique<ncclWindow_vidmem>();
                               *made = {address, size, (flags & NCCL_WIN_COLL_SYMMETRIC) != 0, true};
                               std::lock_guard lock(comm->mutex);
                               *window = made.get();
                               comm->windows.push_back(std::move(made));
                               return ncclSuccess;
                             }});
}
NCCL_FUNCTION(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window), (comm, window)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!window) return ncclSuccess;
  {
    std::lock_guard lock(comm->mutex);
    for (const auto& known : comm->windows) {
      if (known.get() != window || !known->live) continue;
      known->live = false;
      return ncclSuccess;
    }
  }
  return fail(comm, ncclInvalidArgument, "the window is not this communicator's");
}

NCCL_FUNCTION(ncclMemAlloc, (void** pointer, size_t size), (pointer, size)) {
  if (!pointer || size == 0)
    return fail(nullptr, ncclInvalidArgument, "ncclMemAlloc needs a place for the pointer and a size");
  const Driver& d = driver();
  if (!d.ok) return ncclUnhandledCudaError;
  CUdeviceptr memory = 0;
  constexpr size_t kPage = 2 << 20;
  if (size > SIZE_MAX - kPage) return fail(nullptr, ncclInvalidArgument, "ncclMemAlloc: impossible size");
  const size_t bytes = (size + kPage - 1) / kPage * kPage;
  CUdevice device = 0;
  CUresult status = d.cuCtxGetDevice(&device);
  if (status == CUDA_SUCCESS)
    status = by_handle() ? allocate(device, bytes, memory) : d.cuMemAlloc_v2(&memory, bytes);
  if (status != CUDA_SUCCESS)
    return fail(nullptr, ncclUnhandledCudaError, "ncclMemAlloc: CUDA error " + std::to_string(status));
  *pointer = reinterpret_cast<void*>(memory);
  return ncclSuccess;
}
NCCL_FUNCTION(ncclMemFree, (void* pointer), (pointer)) {
  if (!pointer) return ncclSuccess;
  const Driver& d = driver();
  if (!d.ok) return ncclUnhandledCudaError;
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  CUmemGenericAllocationHandle handle = 0;
  CUresult status = d.cuMemRetainAllocationHandle(&handle, pointer);
  if (status != CUDA_SUCCESS) {
    status = d.cuMemFree_v2(address);
  } else {
    d.cuMemRelease(handle);
    CUdeviceptr base = 0;
    size_t whole = 0;
    status = d.cuMemGetAddressRange_v2(&base, &whole, address);
    if (status == CUDA_SUCCESS)
      status = base == address ? d.cuMemUnmap(base, whole) : CUDA_ERROR_INVALID_VALUE;
    if (status == CUDA_SUCCESS) status = d.cuMemAddressFree(base, whole);
  }
  return status == CUDA_SUCCESS
             ? ncclSuccess
             : fail(nullptr, ncclUnhandledCudaError, "ncclMemFree: CUDA error " + std::to_string(status));
}
