#include "runtime/placement/inventory.h"

namespace shunt::placement {

bool add_monitor_facts(std::vector<DeviceFacts>&) { return false; }
bool monitor_devices(std::vector<DeviceFacts>&) { return false; }

}  // namespace shunt::placement
