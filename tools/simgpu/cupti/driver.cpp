#include "tools/simgpu/cupti/driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace simgpu::cupti {

const Driver& driver() {
  static const Driver* const instance = [] {
    auto* d = new Driver;
    void* lib = dlopen("libcuda.so.1", RTLD_NOW);
    bool ok = lib != nullptr;
    auto get = [&](auto& member, const char* name) {
      member = lib ? reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(lib, name)) : nullptr;
      ok = ok && member;
    };
    get(d->subscribe, "simgpu_subscribe");
    get(d->unsubscribe, "simgpu_unsubscribe");
    get(d->set_api_callback, "simgpu_set_api_callback");
    get(d->set_runtime_callback, "simgpu_set_runtime_callback");
    get(d->unfinished, "simgpu_unfinished");
    get(d->quiet, "simgpu_quiet");
    get(d->host_ns, "simgpu_host_ns");
    get(d->device_ns, "simgpu_device_ns");
    get(d->graph_id, "simgpu_graph_id");
    get(d->graph_exec_id, "simgpu_graph_exec_id");
    get(d->graph_node_id, "simgpu_graph_node_id");
    get(d->cuDeviceGetCount, "cuDeviceGetCount");
    get(d->cuDeviceGetAttribute, "cuDeviceGetAttribute");
    get(d->cuDeviceGetName, "cuDeviceGetName");
    get(d->cuDeviceGetUuid, "cuDeviceGetUuid_v2");
    get(d->cuDeviceTotalMem, "cuDeviceTotalMem_v2");
    get(d->cuCtxGetCurrent, "cuCtxGetCurrent");
    get(d->cuCtxPushCurrent, "cuCtxPushCurrent_v2");
    get(d->cuCtxPopCurrent, "cuCtxPopCurrent_v2");
    get(d->cuCtxGetDevice, "cuCtxGetDevice");
    get(d->cuCtxGetId, "cuCtxGetId");
    get(d->cuStreamGetId, "cuStreamGetId");
    get(d->cuStreamGetCtx, "cuStreamGetCtx");
    d->ok = ok;
    return d;
  }();
  return *instance;
}

CurrentContext current_context() {
  CurrentContext now;
  Quiet quiet;
  unsigned long long id = 0;
  CUdevice device = -1;
  if (driver().cuCtxGetCurrent(&now.handle) != CUDA_SUCCESS || !now.handle) return {};
  if (driver().cuCtxGetId(now.handle, &id) == CUDA_SUCCESS) now.id = static_cast<uint32_t>(id);
  if (driver().cuCtxGetDevice(&device) == CUDA_SUCCESS) now.device = device;
  return now;
}

}  // namespace simgpu::cupti
