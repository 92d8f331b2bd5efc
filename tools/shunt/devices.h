// The devices of this machine or of a simulated box, in CUDA's order. One thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/placement/facts.h"

namespace shunt::tool {

// Facts in bus order -> CUDA's ordinal order. When models differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID the
// driver (`driver` is its file) is asked in a short-lived child process, since its rule for "fastest first"
// is not documented.
void sort_as_driver(std::vector<placement::DeviceFacts>& facts, const std::string& driver);

// Real devices: NVML's facts in CUDA's order. Empty, with one line in `note`, when there is no driver or no
// device.
std::vector<placement::DeviceFacts> real_devices(std::string& note);

}  // namespace shunt::tool
