#include "runtime/placement/ordinal_map.h"

namespace shunt::placement {

bool OrdinalMap::assign(const std::vector<int>& order) {
  const int n = static_cast<int>(order.size());
  if (n > kMaxDevices) return false;
  std::array<bool, kMaxDevices> seen{};
  for (const int p : order) {
    if (p < 0 || p >= n || seen[static_cast<size_t>(p)]) return false;
    seen[static_cast<size_t>(p)] = true;
  }
  identity_ = true;
  for (int v = 0; v < n; v++) {
    const int p = order[static_cast<size_t>(v)];
    physical_[static_cast<size_t>(v)] = static_cast<int16_t>(p);
    virtual_[static_cast<size_t>(p)] = static_cast<int16_t>(v);
    identity_ = identity_ && p == v;
  }
  count_ = n;
  return true;
}

}  // namespace shunt::placement
