// The devices as this process sees them: the box's devices filtered and ordered by CUDA_VISIBLE_DEVICES.
// Built at cuInit, immutable afterwards except for the primary context (engine mutex). Leaked.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/box/box.h"
#include "tools/simgpu/driver/core/cuda_api.h"

namespace simgpu::driver {

struct Context;
class DeviceHeap;

struct Device {
  int ordinal = 0;    // CUdevice
  int box_index = 0;  // in Box
  const shunt::profiles::Profile* profile = nullptr;
  DeviceHeap* heap = nullptr;
  std::shared_ptr<Context> primary;  // exists once retained
  unsigned primary_flags = 0;
  int primary_count = 0;
  uint64_t host_call_ns = 0, launch_ns = 0;

  uint64_t memory_bytes() const;
  int sm_count() const;
  int threads_per_sm() const;
  int blocks_per_sm() const;
  uint64_t shared_per_sm() const;
  uint64_t shared_per_block_optin() const;
  int regs_per_sm() const;
  int cc() const { return int(profile->cc_major) * 10 + int(profile->cc_minor); }
  bool can_access_peer(const Device& other) const;  // what the driver says, broken or not
  P2p p2p(const Device& other) const;
};

struct Platform {
  Box* box = nullptr;
  std::vector<Device*> devices;
};
// Null before cuInit.
Platform* platform();
CUresult initialise_platform();
// Null for an ordinal that does not exist.
Device* device_at(int ordinal);
// Indices into the box that CUDA_VISIBLE_DEVICES selects; exposed for tests.
std::vector<int> visible_devices(const std::vector<std::string>& uuids, const char* variable);
bool is_initialised();
bool is_forked_child();
}  // namespace simgpu::driver
