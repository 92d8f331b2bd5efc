// Settings from the environment, read once: SIMGPU_CUPTI_V2 (0: cuptiSubscribe_v2 is absent),
// SIMGPU_CUPTI_HOLDER (a tool of that name holds the subscriber slot from the start), SIMGPU_CUPTI_EPOCH (ns
// added to virtual time instead of the wall clock at first use), and the fault sites cupti_drop and
// cupti_zero_stamp of SIMGPU_FAULTS (grammar: driver/core/faults.h). Any thread.
#pragma once
#include <cstdint>
#include <string>

namespace simgpu::cupti {

struct Settings {
  std::string holder;
  bool has_epoch = false;
  uint64_t epoch_ns = 0;
};
const Settings& settings();

enum class Site { drop, zero_stamp };
bool fault(Site site);

}  // namespace simgpu::cupti
