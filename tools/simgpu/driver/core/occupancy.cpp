#include "tools/simgpu/driver/core/occupancy.h"

#include <algorithm>

namespace simgpu::driver {
int resident_blocks_per_sm(const Device& device, const exec::KernelInfo& kernel, int block_threads,
                           uint64_t dynamic_shared) {
  if (block_threads <= 0 || block_threads > 1024) return 0;
  const int warps = (block_threads + 31) / 32;
  int blocks = std::min(device.blocks_per_sm(), device.threads_per_sm() / 32 / warps);
  // Registers are given out per warp in units of 256.
  const uint32_t per_warp = (std::max(16u, kernel.registers) * 32 + 255) / 256 * 256;
  blocks = std::min(blocks, int(uint32_t(device.regs_per_sm()) / per_warp) / warps);
  const uint64_t shared = kernel.static_shared + dynamic_shared;
  if (shared > device.shared_per_block_optin()) return 0;
  const uint64_t shared_units = (shared + kReservedSharedPerBlock + 127) / 128 * 128;
  return std::min<int>(blocks, int(device.shared_per_sm() / shared_units));
}
}  // namespace simgpu::driver
