// How many blocks of a kernel fit on one SM: threads, blocks, registers and shared memory, with the
// hardware's granularity. Pure functions.
#pragma once
#include <cstdint>

#include "tools/simgpu/driver/core/device.h"
#include "tools/simgpu/exec/exec.h"

namespace simgpu::driver {
constexpr uint32_t kReservedSharedPerBlock = 1024;  // kept by the system in each block's shared memory
int resident_blocks_per_sm(const Device& device, const exec::KernelInfo& kernel, int block_threads,
                           uint64_t dynamic_shared);
}  // namespace simgpu::driver
