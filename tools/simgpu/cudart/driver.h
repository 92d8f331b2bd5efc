// The driver API as function pointers, found the way NVIDIA's runtime finds it: dlopen("libcuda.so.1"), one
// dlsym of cuGetProcAddress_v2, then every function by name, version and stream flag. An interposer therefore
// meets the same path. Loaded once per process and never unloaded; constant after load, so any thread may
// call through it.
#pragma once
#include "tools/simgpu/cudart/cuda_headers.h"

namespace simgpu::cudart {

// Which default stream a NULL stream means: the legacy one, or (functions ending in _ptsz/_ptds) the calling
// thread's.
enum Flavour : int { kLegacy = 0, kPerThread = 1 };

struct Driver {
#define ENTRY(name, version) PFN_##name##_v##version name;
#define DUAL(name, version, per_thread_version) PFN_##name##_v##version name[2];
#include "tools/simgpu/cudart/driver_entries.def"
#undef ENTRY
#undef DUAL
  PFN_cuGetProcAddress_v12000 cuGetProcAddress;
};

// Valid (every pointer non-null) after load_driver() succeeded. Functions the driver lacks answer
// CUDA_ERROR_NOT_SUPPORTED.
extern Driver driver;

// cudaSuccess, or cudaErrorInsufficientDriver when there is no driver or one older than this runtime. Not
// thread-safe: called once, under the runtime's start lock.
cudaError_t load_driver();

}  // namespace simgpu::cudart
