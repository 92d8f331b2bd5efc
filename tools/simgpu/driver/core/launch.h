// From the arguments of a launch (or of a kernel graph node) to a checked KernelLaunch. Engine mutex held.
#pragma once
#include "tools/simgpu/driver/core/ops.h"

namespace simgpu::driver {
struct LaunchRequest {
  exec::Dim3 grid, block;
  uint64_t dynamic_shared = 0;
  bool cooperative = false;
  const CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
struct LaunchExtras {                  // what attributes ask beyond the kernel itself
  CUevent completion_event = nullptr;  // recorded after the launch
};
CUresult prepare_launch(Context& context, CUfunction function, const LaunchRequest& request,
                        void** kernel_params, void** extra, KernelLaunch& out,
                        LaunchExtras* extras = nullptr);
// Most threads one block of this kernel may have on the device.
int max_block_threads(const Device& device, const exec::KernelInfo& info);
}  // namespace simgpu::driver
