// What placement knows of a device, whoever found it out (NVML monitor, or the simulated box). Plain data.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/profiles/profile.h"

namespace shunt::placement {

// How two devices reach each other, worst first. Advisory: what NVML or the box says.
enum class Reach : uint8_t { unknown, host, pcie, nvlink };

struct DeviceFacts {
  int ordinal = -1;  // CUDA's ordinal with every device visible
  std::string uuid;  // "GPU-xxxxxxxx-..."
  std::string name;  // "NVIDIA B200"
  std::string pci_bus_id;
  const profiles::Profile* profile = nullptr;  // null: a model without profile
  uint32_t compute_capability = 0;             // 100 = 10.0
  uint64_t total_bytes = 0, free_bytes = 0;
  bool memory_known = false;
  uint32_t processes = 0;  // other processes with memory on it
  uint32_t utilisation_pct = 0;
  std::vector<Reach> reach;  // to each device of the list it is in; empty: unknown

  // Devices of one model are interchangeable for results: same profile, else same name and capability.
  bool same_model(const DeviceFacts& o) const {
    return profile || o.profile ? profile == o.profile
                                : name == o.name && compute_capability == o.compute_capability;
  }
  // What people call the model: "B200", "Rubin" (whose board has only a placeholder name), else the driver's
  // name.
  std::string label() const;
  bool busy() const { return processes > 0 || utilisation_pct > 10; }
};

}  // namespace shunt::placement
