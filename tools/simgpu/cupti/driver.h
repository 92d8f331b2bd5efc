// simgpu's driver as libcupti sees it: private entry points and a few public ones, found in the libcuda.so.1
// that is loaded. Filled once, any thread; `ok` is false under any other driver, and every call then answers
// CUPTI_ERROR_NOT_INITIALIZED.
#pragma once
#include <cuda.h>

#include "tools/simgpu/driver/private_api.h"

namespace simgpu::cupti {

struct Driver {
  decltype(&::simgpu_subscribe) subscribe = nullptr;
  decltype(&::simgpu_unsubscribe) unsubscribe = nullptr;
  decltype(&::simgpu_set_api_callback) set_api_callback = nullptr;
  decltype(&::simgpu_set_runtime_callback) set_runtime_callback = nullptr;
  decltype(&::simgpu_unfinished) unfinished = nullptr;
  decltype(&::simgpu_quiet) quiet = nullptr;
  decltype(&::simgpu_host_ns) host_ns = nullptr;
  decltype(&::simgpu_device_ns) device_ns = nullptr;
  decltype(&::simgpu_graph_id) graph_id = nullptr;
  decltype(&::simgpu_graph_exec_id) graph_exec_id = nullptr;
  decltype(&::simgpu_graph_node_id) graph_node_id = nullptr;
  CUresult (*cuDeviceGetCount)(int*) = nullptr;
  CUresult (*cuDeviceGetAttribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
  CUresult (*cuDeviceGetName)(char*, int, CUdevice) = nullptr;
  CUresult (*cuDeviceGetUuid)(CUuuid*, CUdevice) = nullptr;
  CUresult (*cuDeviceTotalMem)(size_t*, CUdevice) = nullptr;
  CUresult (*cuCtxGetCurrent)(CUcontext*) = nullptr;
  CUresult (*cuCtxPushCurrent)(CUcontext) = nullptr;
  CUresult (*cuCtxPopCurrent)(CUcontext*) = nullptr;
  CUresult (*cuCtxGetDevice)(CUdevice*) = nullptr;
  CUresult (*cuCtxGetId)(CUcontext, unsigned long long*) = nullptr;
  CUresult (*cuStreamGetId)(CUstream, unsigned long long*) = nullptr;
  CUresult (*cuStreamGetCtx)(CUstream, CUcontext*) = nullptr;
  bool ok = false;
};
const Driver& driver();

// Calls of ours within cost no virtual time and leave no trace.
struct Quiet {
  Quiet() { driver().quiet(1); }  // NOLINT(clang-analyzer-core.CallAndMessage): callers checked driver().ok
  ~Quiet() { driver().quiet(-1); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

// The thread's current context, its id and device; id 0 when none.
struct CurrentContext {
  CUcontext handle = nullptr;
  uint32_t id = 0;
  int device = -1;
};
CurrentContext current_context();

}  // namespace simgpu::cupti
