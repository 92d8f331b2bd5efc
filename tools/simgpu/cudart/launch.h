// Kernel launches. The kernel goes to the driver as a CUfunction, uncast, as NVIDIA's runtime passes it.
#pragma once
#include "tools/simgpu/cudart/driver.h"

namespace simgpu::cudart {

cudaError_t launch(Flavour flavour, CUkernel kernel, dim3 grid, dim3 block, void** arguments,
                   size_t shared_bytes, cudaStream_t stream);

// The runtime names an impossible grid or block cudaErrorInvalidConfiguration where the driver says invalid
// value. Asked only after the driver refused, so the launch path does not pay for it.
cudaError_t explain_refusal(CUresult result, dim3 grid, dim3 block);

CUlaunchConfig to_driver(const cudaLaunchConfig_t& config);

inline CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

}  // namespace simgpu::cudart
