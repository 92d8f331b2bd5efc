// Fault site "nvml" of SIMGPU_FAULTS (the grammar is the driver's: driver/core/faults.h): "nvml@3",
// "nvml%0.01", "nvml:nvmlDeviceGetMemoryInfo_v2@2+=15". Without a code: 999, unknown error. Any thread.
#pragma once
#include "tools/simgpu/nvml/nvml_types.h"

namespace simgpu::nvml {

// kSuccess, or the code to return when a rule strikes this call of `function`.
Return fault(const char* function);

}  // namespace simgpu::nvml
