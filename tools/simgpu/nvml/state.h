// What the entry points share: initialisation count, device handles in NVML order, checks, and the load of a
// device as a sampler would see it. Any thread; nothing to do at exit.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

#include "tools/simgpu/box/box.h"
#include "tools/simgpu/nvml/nvml_types.h"

#define SIMGPU_NVML extern "C" __attribute__((visibility("default"))) simgpu::nvml::Return

namespace simgpu::nvml {

// NVML enumerates by PCI bus id, which need not be the box's order (a box file may place devices anywhere).
struct DeviceHandle {
  uint32_t index = 0;  // NVML's
  int box_device = 0;
};

bool initialised();
Return initialise();
Return shut_down();

Box& box();  // valid while initialised
uint32_t device_count();
Device device_at(uint32_t index);
Device device_of_box(int box_device);
// kUninitialized, kInvalidArgument, an injected fault of the calling function, or kSuccess.
Return check(Device device, const char* function = __builtin_FUNCTION());
inline const shunt::profiles::Profile& profile(Device d) { return box().profile(d->box_device); }
inline DeviceState& state(Device d) { return box().state(d->box_device); }
inline const DeviceSpec& spec(Device d) { return box().spec().devices[static_cast<size_t>(d->box_device)]; }
// Setters need root on a real machine. SIMGPU_ROOT=1 or 0 overrides who the caller is.
bool is_root();

// Copies text with its end if the buffer is long enough.
Return copy_text(const std::string& text, char* out, uint32_t length);

// What the device did of late, in virtual time: from the last state that another query of this process saw.
// When no virtual time has passed the last answer stays for a fifth of a real second, then the device counts
// as idle.
struct Load {
  double busy = 0, dram = 0;        // fractions
  double pcie_tx = 0, pcie_rx = 0;  // bytes per second
};
Load load(Device device);
double power_watts(Device device);
int temperature_celsius(Device device);
uint64_t energy_mj(Device device);
uint32_t link_count(Device device);
bool link_active(Device device, uint32_t link);
uint32_t links_up(Device device);

}  // namespace simgpu::nvml

#define SIMGPU_NVML_CHECK(device) \
  if (simgpu::nvml::Return bad = simgpu::nvml::check(device); bad != simgpu::nvml::kSuccess) return bad
#define SIMGPU_NVML_REQUIRE(condition) \
  if (!(condition)) return simgpu::nvml::kInvalidArgument
#define SIMGPU_NVML_ROOT() \
  if (!simgpu::nvml::is_root()) return simgpu::nvml::kNoPermission
