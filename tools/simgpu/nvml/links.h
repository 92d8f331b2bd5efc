// Facts of NVLink links that both the link calls and the field values report. Any thread.
#pragma once
#include "tools/simgpu/nvml/state.h"

namespace simgpu::nvml {

uint32_t link_version(Device device);     // NVML_NVLINK_VERSION_*: 5.0 = 7, 6.0 = 8
uint32_t link_speed_mbps(Device device);  // raw rate of one link and direction, MB/s
// A link's share of the device's traffic: all links that are up carry the same.
uint64_t link_bytes(Device device, uint32_t link, bool transmit);

}  // namespace simgpu::nvml
