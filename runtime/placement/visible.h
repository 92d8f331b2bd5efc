// CUDA_VISIBLE_DEVICES as CUDA reads it: ordinals or UUIDs (a unique prefix is enough), up to the first entry
// that names no device; later ones are invisible. Pure; any thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/placement/facts.h"

namespace shunt::placement {

struct Visible {
  std::vector<int> devices;  // indices into the fact list, in the program's order
  bool opaque = false;  // duplicates, MIG or a mixture we do not second-guess: leave the variable as it is
  std::string why;      // for opaque, or the entry that ended the list
};

// `variable` nullopt: not set, all devices. `facts` in CUDA's ordinal order.
Visible parse_visible(const std::optional<std::string>& variable, const std::vector<DeviceFacts>& facts);

}  // namespace shunt::placement
