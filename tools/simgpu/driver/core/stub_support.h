// What generated/stubs.cpp needs. A stub answers CUDA_ERROR_NOT_SUPPORTED and names itself once, so
// that whoever's program fails learns what is missing.
#pragma once
#include "tools/simgpu/driver/core/cuda_api.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/thread_state.h"

#define SIMGPU_STUB extern "C" __attribute__((visibility("default"), weak))
#define SIMGPU_THREADED extern "C" __attribute__((visibility("default"), weak))

namespace simgpu::driver {
inline CUresult not_implemented(const char* name) {
  log_once(LogLevel::warn, name, "%s is not implemented", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}
}  // namespace simgpu::driver
