// Facts about devices from the monitor (NVML): free memory, other processes, utilisation. Any thread; makes
// no CUDA call.
#pragma once
#include <vector>

#include "runtime/placement/facts.h"

namespace shunt::placement {

// Fills memory, processes, utilisation and profile of devices that are known by UUID. False when NVML is not
// there.
bool add_monitor_facts(std::vector<DeviceFacts>& facts);
// All devices in NVML's order (PCI bus order), which is CUDA's order when the models are equal or
// CUDA_DEVICE_ORDER=PCI_BUS_ID.
bool monitor_devices(std::vector<DeviceFacts>& facts);

}  // namespace shunt::placement
