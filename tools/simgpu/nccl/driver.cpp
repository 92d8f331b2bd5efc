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
    // What runs in a collective is the device's own doing, not a call of the program.
    decltype(&::simgpu_device_side) device_side = nullptr;
    get(device_side, "simgpu_device_side");
    auto get_device_side = [&](auto& member, const char* name) {
      member = device_side ? reinterpret_cast<std::remove_reference_t<decltype(member)>>(device_side(name))
                           : nullptr;
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
    get(d->submit, "simgpu_submit");
    get_device_side(d->poke, "simgpu_poke");
    get_device_side(d->op_start_ns, "simgpu_op_start_ns");
    get_device_side(d->op_fail, "simgpu_op_fail");
    get_device_side(d->op_access, "simgpu_op_access");
    get_device_side(d->op_meet, "simgpu_op_meet");
    get_device_side(d->host_pointer, "simgpu_host_pointer");
    get_device_side(d->export_memory, "simgpu_export_memory");
    get_device_side(d->box_index, "simgpu_box_index");
    get_device_side(d->link_bytes_per_s, "simgpu_link_bytes_per_s");
    get_device_side(d->null_clock, "simgpu_null_clock");
    d->ok = ok;
    return d;
  }();
  return *instance;
}

}  // namespace simgpu::nccl
