#include "runtime/placement/inventory.h"

#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/monitor/monitor.h"

namespace shunt::placement {
namespace {

monitor::Snapshot snapshot() {
  std::string error;
  const auto monitor = monitor::Monitor::open(error);
  if (!monitor) {
    SHUNT_LOG_DEBUG(monitor, "%s", error.c_str());
    return {};
  }
  return monitor->read(monitor::kMemory | monitor::kLoad | monitor::kProcesses);
}

void add(DeviceFacts& d, const monitor::Device& device) {
  const monitor::Identity& id = device.identity;
  const monitor::Reading& now = device.now;
  d.profile = id.profile;
  d.pci_bus_id = id.pci_bus_id;
  if (id.cc_major) d.compute_capability = id.cc_major * 10 + id.cc_minor;
  if (now.memory) {
    d.memory_known = true;
    d.total_bytes = now.memory->total;
    d.free_bytes = now.memory->free;
  }
  d.utilisation_pct = now.busy_percent.value_or(0);
  const auto self = static_cast<uint32_t>(getpid());
  for (const monitor::Process& p : now.processes) d.processes += p.pid != self;
}

}  // namespace

bool add_monitor_facts(std::vector<DeviceFacts>& facts) {
  const monitor::Snapshot now = snapshot();
  for (DeviceFacts& d : facts)
    if (const monitor::Device* device = now.find(d.uuid)) add(d, *device);
  return !now.devices.empty();
}

bool monitor_devices(std::vector<DeviceFacts>& facts) {
  const monitor::Snapshot now = snapshot();
  for (const monitor::Device& device : now.devices) {
    // A board in MIG mode is not a device a program sees as a whole.
    if (device.identity.mig_enabled) continue;
    const int ordinal = static_cast<int>(facts.size());
    DeviceFacts& d = facts.emplace_back();
    d.ordinal = ordinal;
    d.uuid = device.identity.uuid;
    d.name = device.identity.name;
    add(d, device);
  }
  return !now.devices.empty();
}

}  // namespace shunt::placement
