// Boxes and requests the placement tests share.
#pragma once
#include <gtest/gtest.h>

#include "runtime/placement/decide.h"

namespace shunt::placement {

inline constexpr uint64_t kGiB = 1ull << 30;

inline DeviceFacts device(int ordinal, const char* model, uint64_t free_gib, uint32_t processes = 0) {
  DeviceFacts d;
  const profiles::Profile* p = profiles::find(model);
  d.ordinal = ordinal;
  d.profile = p;
  d.name = p->name;
  d.uuid = "GPU-0000000" + std::to_string(ordinal);
  d.compute_capability = p->cc_major * 10 + p->cc_minor;
  d.total_bytes = static_cast<uint64_t>(p->memory_bytes.value);
  d.free_bytes = free_gib * kGiB;
  d.memory_known = true;
  d.processes = processes;
  return d;
}
inline std::vector<DeviceFacts> mixed_box() {
  return {device(0, "b200", 178), device(1, "b200", 178), device(2, "rubin", 279), device(3, "rubin", 279)};
}

inline Request with(const std::vector<std::string>& hints, Mode mode = Mode::on) {
  Request r;
  r.mode = mode;
  std::vector<config::Problem> problems;
  r.hints = config::parse_hints(hints, problems);
  EXPECT_TRUE(problems.empty());
  return r;
}

}  // namespace shunt::placement
