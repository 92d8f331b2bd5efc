// One-to-one map between the ordinals a program uses (virtual) and the driver's (physical). Built once, then
// read-only; any thread. Values outside the map pass unchanged, so that bad ordinals get the driver's own
// error.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shunt::placement {

class OrdinalMap {
 public:
  static constexpr int kMaxDevices = 64;
  OrdinalMap() = default;
  // order[v] = physical ordinal of virtual ordinal v; must be a permutation of 0..n-1. False (identity kept)
  // otherwise.
  bool assign(const std::vector<int>& order);

  int to_physical(int v) const {
    return static_cast<unsigned>(v) < static_cast<unsigned>(count_) ? physical_[static_cast<size_t>(v)] : v;
  }
  int to_virtual(int p) const {
    return static_cast<unsigned>(p) < static_cast<unsigned>(count_) ? virtual_[static_cast<size_t>(p)] : p;
  }
  bool identity() const { return identity_; }
  int count() const { return count_; }

 private:
  std::array<int16_t, kMaxDevices> physical_{}, virtual_{};
  int count_ = 0;
  bool identity_ = true;
};

}  // namespace shunt::placement
