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
    // Data: see private_api.h.
    const auto* table =
        lib ? static_cast<const simgpu_private_table*>(dlsym(lib, "simgpu_private")) : nullptr;
    ok = ok && table && table->size >= sizeof(simgpu_private_table);
    if (ok) {
      d->subscribe = table->subscribe;
      d->unsubscribe = table->unsubscribe;
      d->set_api_callback = table->set_api_callback;
      d->set_runtime_callback = table->set_runtime_callback;
      d->unfinished = table->unfinished;
      d->quiet = table->quiet;
      d->host_ns = table->host_ns;
      d->device_ns = table->device_ns;
      d->graph_id = table->graph_id;
      d->graph_exec_id = table->graph_exec_id;
      d->graph_node_id = table->graph_node_id;
    }
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
