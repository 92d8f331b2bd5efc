// The devices of this machine or of a simulated box, in CUDA's order. One thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/placement/facts.h"

namespace shunt::tool {

// Real devices: NVML's facts in CUDA's ordinal order. When models differ and CUDA_DEVICE_ORDER is not
// PCI_BUS_ID the driver itself is asked, in a short-lived child process. Empty, with one line in `note`, when
// there is no driver or no device.
std::vector<placement::DeviceFacts> real_devices(std::string& note);

}  // namespace shunt::tool
