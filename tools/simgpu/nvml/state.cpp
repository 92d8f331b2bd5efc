#include "tools/simgpu/nvml/state.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <numeric>

#include "tools/simgpu/nvml/faults.h"

namespace simgpu::nvml {
namespace {

struct Sampler {
  uint64_t clock_ns = 0, busy_ns = 0, dram = 0, tx = 0, rx = 0, wall_ns = 0;
  Load load;
};

// Leaked on purpose: a client may ask while the process is ending.
struct Globals {
  std::mutex mutex;
  std::atomic<int> users{0};
  std::atomic<Box*> box{nullptr};
  uint32_t count = 0;
  DeviceHandle handles[kMaxDevices];
  int nvml_index[kMaxDevices];
  Sampler samplers[kMaxDevices];
};
Globals& globals() {
  static Globals* const g = new Globals;
  return *g;
}

uint64_t wall_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

bool initialised() { return globals().users.load(std::memory_order_acquire) > 0; }

Return initialise() {
  Globals& g = globals();
  std::lock_guard lock(g.mutex);
  Box* box = Box::get();
  if (!box) return kDriverNotLoaded;
  if (g.box.load() == nullptr) {
    int n = box->device_count();
    int order[kMaxDevices] = {};
    std::iota(order, order + n, 0);
    std::sort(order, order + n, [&](int a, int b) {
      return std::pair(box->pci_domain(a), box->pci_bus(a)) < std::pair(box->pci_domain(b), box->pci_bus(b));
    });
    for (int i = 0; i < n; ++i) {
      g.handles[i] = {static_cast<uint32_t>(i), order[i]};
      g.nvml_index[order[i]] = i;
    }
    g.count = static_cast<uint32_t>(n);
    g.box.store(box);
  }
  g.users.fetch_add(1, std::memory_order_release);
  return kSuccess;
}

Return shut_down() {
  Globals& g = globals();
  std::lock_guard lock(g.mutex);
  if (g.users.load() == 0) return kUninitialized;
  g.users.fetch_sub(1, std::memory_order_release);
  return kSuccess;
}

Box& box() { return *globals().box.load(std::memory_order_acquire); }
uint32_t device_count() { return globals().count; }
Device device_at(uint32_t index) { return &globals().handles[index]; }
Device device_of_box(int box_device) { return &globals().handles[globals().nvml_index[box_device]]; }

Return check(Device device, const char* function) {
  if (!initialised()) return kUninitialized;
  const Globals& g = globals();
  auto offset = reinterpret_cast<uintptr_t>(device) - reinterpret_cast<uintptr_t>(g.handles);
  if (offset % sizeof(DeviceHandle) != 0 || offset / sizeof(DeviceHandle) >= g.count) return kInvalidArgument;
  return fault(function);
}

bool is_root() {
  if (const char* forced = std::getenv("SIMGPU_ROOT")) return std::strcmp(forced, "1") == 0;
  return geteuid() == 0;
}

Return copy_text(const std::string& text, char* out, uint32_t length) {
  if (!out) return kInvalidArgument;
  if (length < text.size() + 1) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

Load load(Device device) {
  constexpr uint64_t kHold_ns = 200'000'000;
  Globals& g = globals();
  std::lock_guard lock(g.mutex);
  Sampler& last = g.samplers[device->index];
  const DeviceState& s = state(device);
  Sampler now;
  now.clock_ns = box().merge_clock(0);
  now.busy_ns = s.busy_ns;
  now.dram = s.dram_bytes;
  now.tx = s.pcie_tx_bytes;
  now.rx = s.pcie_rx_bytes;
  now.wall_ns = wall_ns();
  if (now.clock_ns <= last.clock_ns) {
    if (now.wall_ns - last.wall_ns > kHold_ns) last.load = Load{};
    return last.load;
  }
  double seconds = static_cast<double>(now.clock_ns - last.clock_ns) * 1e-9;
  auto rate = [&](uint64_t after, uint64_t before) {
    return after > before ? static_cast<double>(after - before) / seconds : 0.0;
  };
  now.load.busy = std::min(1.0, rate(now.busy_ns, last.busy_ns) * 1e-9);
  now.load.dram = std::min(1.0, rate(now.dram, last.dram) / profile(device).memory_bandwidth.value);
  now.load.pcie_tx = rate(now.tx, last.tx);
  now.load.pcie_rx = rate(now.rx, last.rx);
  last = now;
  return now.load;
}

double power_watts(Device device) {
  double idle = profile(device).idle_w.value;
  double limit = static_cast<double>(state(device).power_limit_mw.load()) / 1000;
  return idle + std::max(0.0, limit - idle) * load(device).busy;
}

uint64_t energy_mj(Device device) {
  const DeviceState& s = state(device);
  double idle = profile(device).idle_w.value;
  double seconds = static_cast<double>(box().merge_clock(0)) * 1e-9;
  double dynamic_mj = static_cast<double>(s.energy_mj.load());
  if (dynamic_mj == 0) {  // the driver does not charge kernels: the power model above, over the whole run
    double limit = static_cast<double>(s.power_limit_mw.load()) / 1000;
    dynamic_mj = std::max(0.0, limit - idle) * static_cast<double>(s.busy_ns.load()) * 1e-6;
  }
  return static_cast<uint64_t>(idle * seconds * 1000 + dynamic_mj);
}

int temperature_celsius(Device device) {
  const auto& p = profile(device);
  return 30 +
         static_cast<int>(std::lround(45 * (power_watts(device) - p.idle_w.value) / p.power_max_w.value));
}

uint32_t link_count(Device device) { return static_cast<uint32_t>(profile(device).nvlink_links.value); }

bool link_active(Device device, uint32_t link) {
  const DeviceState& s = state(device);
  uint32_t mask = link < 32 ? s.links_down_mask_lo.load() : s.links_down_mask_hi.load();
  if (mask >> (link % 32) & 1) return false;
  const BoxSpec& b = box().spec();
  // Ports of a board without NVLink peers stay untrained; a single device's go to the switches.
  if (b.devices.size() == 1) return b.links != "none" && b.links.rfind("pcie", 0) != 0;
  for (LinkKind kind : b.link[static_cast<size_t>(device->box_device)])
    if (kind == LinkKind::nvlink) return true;
  return false;
}

uint32_t links_up(Device device) {
  uint32_t up = 0;
  for (uint32_t i = 0; i < link_count(device); ++i) up += link_active(device, i);
  return up;
}

}  // namespace simgpu::nvml
