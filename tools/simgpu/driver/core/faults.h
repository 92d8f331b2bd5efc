// Fault injection: SIMGPU_FAULTS="alloc@3,launch%0.01,event_query@*,driver_missing:cuLaunchKernelEx=801". One
// item per comma: site[:name] then @n (the n-th time), @* (always), @n+ (from the n-th on) or %p
// (probability, seeded by SIMGPU_SEED), and optionally =code. Sites are named where they are asked. Any
// thread.
#pragma once
#include "tools/simgpu/driver/core/cuda_api.h"

namespace simgpu::driver {
// CUDA_SUCCESS almost always; the injected code when a schedule strikes. `usual` is the code when the item
// names none.
CUresult fault_point(const char* site, CUresult usual, const char* name = nullptr);
bool faults_active();
}  // namespace simgpu::driver
