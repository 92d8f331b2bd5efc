// NVML: the calls simgpu does not have. They exist, as in NVIDIA's library, and say so by the documented
// code.
#include "tools/simgpu/nvml/state.h"

// The arguments are not looked at, so one signature serves all (the caller clears its own stack in this ABI).
#define X(name)                                                                                      \
  SIMGPU_NVML name() {                                                                               \
    return simgpu::nvml::initialised() ? simgpu::nvml::kNotSupported : simgpu::nvml::kUninitialized; \
  }
#include "tools/simgpu/nvml/unsupported.def"
#undef X
