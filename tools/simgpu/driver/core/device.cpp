#include "tools/simgpu/driver/core/device.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/log.h"

namespace simgpu::driver {
namespace {
std::atomic<Platform*> g_platform{nullptr};
std::atomic<bool> g_forked{false};

int value_or(const shunt::profiles::Value& value, int fallback) {
  return value.value > 0 ? int(value.value) : fallback;
}
}  // namespace

uint64_t Device::memory_bytes() const {
  return platform()->box->spec().devices[size_t(box_index)].memory_bytes;
}
int Device::sm_count() const { return value_or(profile->sm_count, 1); }
int Device::threads_per_sm() const { return value_or(profile->threads_per_sm, 2048); }
int Device::blocks_per_sm() const { return value_or(profile->blocks_per_sm, 32); }
uint64_t Device::shared_per_sm() const { return uint64_t(value_or(profile->shared_per_sm_bytes, 102400)); }
uint64_t Device::shared_per_block_optin() const {
  return uint64_t(value_or(profile->shared_per_block_optin_bytes, 101376));
}
int Device::regs_per_sm() const { return value_or(profile->regs_per_sm, 65536); }

bool Device::can_access_peer(const Device& other) const {
  if (&other == this) return false;
  return p2p(other) != P2p::not_supported;
}
P2p Device::p2p(const Device& other) const {
  return platform()->box->spec().p2p[size_t(box_index)][size_t(other.box_index)];
}

Platform* platform() { return g_platform.load(std::memory_order_acquire); }
bool is_initialised() { return platform() && !g_forked.load(std::memory_order_relaxed); }
bool is_forked_child() { return g_forked.load(std::memory_order_relaxed); }
Device* device_at(int ordinal) {
  Platform* p = platform();
  return p && ordinal >= 0 && ordinal < int(p->devices.size()) ? p->devices[size_t(ordinal)] : nullptr;
}

// Documented rules: comma-separated indices or UUIDs (any unambiguous prefix, with or without more of it);
// everything from the first invalid or repeated entry on is ignored; an empty value hides all devices.
std::vector<int> visible_devices(const std::vector<std::string>& uuids, const char* variable) {
  std::vector<int> result;
  const int count = int(uuids.size());
  if (!variable) {
    for (int i = 0; i < count; ++i) result.push_back(i);
    return result;
  }
  const char* p = variable;
  while (true) {
    const char* end = strchr(p, ',');
    std::string item(p, end ? size_t(end - p) : strlen(p));
    while (!item.empty() && isspace(static_cast<unsigned char>(item.front()))) item.erase(item.begin());
    while (!item.empty() && isspace(static_cast<unsigned char>(item.back()))) item.pop_back();
    int found = -1;
    if (!item.empty() && isdigit(static_cast<unsigned char>(item[0]))) {
      char* rest = nullptr;
      const long index = strtol(item.c_str(), &rest, 10);
      if (!*rest && index >= 0 && index < count) found = int(index);
    } else if (item.size() > 4 && !strncmp(item.c_str(), "GPU-", 4)) {
      for (int i = 0; i < count; ++i) {
        if (strncasecmp(uuids[size_t(i)].c_str(), item.c_str(), item.size())) continue;
        found = found == -1 ? i : -2;  // ambiguous
      }
    }
    if (found < 0) break;
    if (std::find(result.begin(), result.end(), found) != result.end()) {
      // A device named twice: CUDA reports no devices at all for the repeated index.
      result.clear();
      break;
    }
    result.push_back(found);
    if (!end) break;
    p = end + 1;
  }
  return result;
}

CUresult initialise_platform() {
  if (is_forked_child()) return CUDA_ERROR_NOT_INITIALIZED;
  if (platform()) return platform()->devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  Box* box = Box::get();
  if (!box) return CUDA_ERROR_NO_DEVICE;
  auto* made = new Platform;
  made->box = box;
  std::vector<int> order;
  for (int i = 0; i < box->device_count(); ++i) order.push_back(i);
  // FASTEST_FIRST (the default) puts the fastest device first and leaves the rest in bus order; the box
  // numbers devices in bus order.
  const char* order_text = getenv("CUDA_DEVICE_ORDER");
  if (!order_text || strcmp(order_text, "PCI_BUS_ID") != 0) {
    auto speed = [&](int i) { return box->profile(i).fp32.value; };
    auto best =
        std::max_element(order.begin(), order.end(), [&](int a, int b) { return speed(a) < speed(b); });
    if (best != order.end() && speed(*best) > speed(order[0])) std::rotate(order.begin(), best, best + 1);
  }
  std::vector<std::string> uuids;
  for (int i : order) uuids.push_back(box->uuid_string(i));
  for (int visible : visible_devices(uuids, getenv("CUDA_VISIBLE_DEVICES"))) {
    auto* device = new Device;
    device->ordinal = int(made->devices.size());
    device->box_index = order[size_t(visible)];
    device->profile = &box->profile(device->box_index);
    device->host_call_ns = uint64_t(device->profile->host_call_ns.value);
    device->launch_ns = uint64_t(device->profile->launch_ns.value);
    made->devices.push_back(device);
  }
  for (Device* device : made->devices) {
    device->heap = new DeviceHeap(device->box_index, device->ordinal,
                                  box->spec().devices[size_t(device->box_index)].memory_bytes);
  }
  pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });
  g_platform.store(made, std::memory_order_release);
  return made->devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
}  // namespace simgpu::driver
