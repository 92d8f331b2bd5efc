// The hints of --hint / SHUNT_HINT as numbers. Plain data; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace shunt::config {

struct Hints {
  uint64_t mem_bytes = 0;  // device memory the program needs
  uint64_t context_tokens = 0;
  uint64_t batch = 0;
  uint64_t devices = 0;  // how many the program uses; 0 and 1: one
  uint64_t kv_bytes_per_token = 0;
  std::string role;   // train | infer | augment | forward
  std::string model;  // profile key: "rubin"
  bool any() const {
    return mem_bytes || context_tokens || batch || kv_bytes_per_token || devices || !role.empty() ||
           !model.empty();
  }
};

// Bad entries go to `problems` and are skipped.
Hints parse_hints(const std::vector<std::string>& items, std::vector<Problem>& problems);

}  // namespace shunt::config
