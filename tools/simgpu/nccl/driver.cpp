#include "tools/simgpu/nccl/driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace simgpu::nccl {

const Driver& driver() {
  static const Driver* const instance = [] {
    auto* d = new Driver;
    void* lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    bool ok = lib != nullptr;
    auto get = [&](auto& member, const char* name) {
      member = lib ? reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(lib, name)) : nullptr;
      ok = ok && member;
    };
    get(d->cuInit, "cuInit");
    get(d->cuCtxGetCurrent, "cuCtxGetCurrent");
    get(d->cuCtxSetCurrent, "cuCtxSetCurrent");
    get(d->cuCtxGetDevice, "cuCtxGetDevice");
    get(d->cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    get(d->cuDeviceGetCount, "cuDeviceGetCount");
    get(d->cuDeviceGetAttribute, "cuDeviceGetAttribute");
    get(d->cuEventCreate, "cuEventCreate");
    get(d->cuEventDestroy_v2, "cuEventDestroy_v2");
    get(d->cuEventRecord, "cuEventRecord");
    get(d->cuStreamIsCapturing, "cuStreamIsCapturing");
    get(d->cuStreamWaitEvent, "cuStreamWaitEvent");
    get(d->cuMemAlloc_v2, "cuMemAlloc_v2");
    get(d->cuMemFree_v2, "cuMemFree_v2");
    get(d->cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer");
    get(d->cuMemCreate, "cuMemCreate");
    get(d->cuMemRelease, "cuMemRelease");
    get(d->cuMemAddressReserve, "cuMemAddressReserve");
    get(d->cuMemAddressFree, "cuMemAddressFree");
    get(d->cuMemMap, "cuMemMap");
    get(d->cuMemUnmap, "cuMemUnmap");
    get(d->cuMemSetAccess, "cuMemSetAccess");
    get(d->cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle");
    get(d->cuMemGetAddressRange_v2, "cuMemGetAddressRange_v2");
    get(d->submit, "simgpu_submit");
    // What runs in a collective is the device's own doing, not a call of the program: found as data
    // (private_api.h).
    const auto* table =
        lib ? static_cast<const simgpu_private_table*>(dlsym(lib, "simgpu_private")) : nullptr;
    ok = ok && table && table->size >= sizeof(simgpu_private_table);
    if (ok) {
      d->poke = table->poke;
      d->op_start_ns = table->op_start_ns;
      d->op_fail = table->op_fail;
      d->op_access = table->op_access;
      d->op_meet = table->op_meet;
      d->host_pointer = table->host_pointer;
      d->export_memory = table->export_memory;
      d->box_index = table->box_index;
      d->link_bytes_per_s = table->link_bytes_per_s;
      d->null_clock = table->null_clock;
    }
    d->ok = ok;
    return d;
  }();
  return *instance;
}

}  // namespace simgpu::nccl
