#include "runtime/monitor/device.h"

namespace shunt::monitor {

std::string Identity::display_name() const {
  return profile && profile->name_is_placeholder ? std::string(profile->key) : name;
}

uint32_t Reading::links_active() const {
  uint32_t count = 0;
  for (const Link& link : links) count += link.state == LinkState::active;
  return count;
}

const Device* Snapshot::find(const std::string& uuid) const {
  for (const Device& device : devices)
    if (device.identity.uuid == uuid) return &device;
  return nullptr;
}

}  // namespace shunt::monitor
