// Finds the period of a sequence of symbols that is still growing. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shunt::graphs {

struct Period {
  size_t length = 0;   // 0: none
  size_t covered = 0;  // how many of the newest symbols repeat with it
};

// The newest symbol is the last. A period counts when the newest `repeats` x length symbols repeat with it.
// Of several the one that explains most of the past wins (a loop inside a loop explains less than the outer
// one), then the shortest. O(n) time and space.
Period find_period(const std::vector<uint32_t>& symbols, size_t longest, size_t repeats);

}  // namespace shunt::graphs
