// Counts of a trace by feature, and the eight-line summary after a run. One thread.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/trace/reader.h"

namespace shunt::tool {

struct FeatureCounts {
  uint64_t decisions = 0, applied = 0, declined = 0, failed = 0, shadow = 0;
  std::map<uint16_t, uint64_t> reasons;  // of declined and failed ones
  std::map<uint16_t, uint64_t> all_reasons;
  std::map<uint8_t, uint64_t> actions;
};
struct TraceCounts {
  std::array<FeatureCounts, 256> features;
  std::map<uint16_t, uint64_t> calls;  // by slot
  uint64_t records = 0, bytes = 0, processes = 0, dropped = 0, overwritten = 0, torn = 0, bad_chunks = 0;
  uint64_t first_ns = ~uint64_t{0}, last_ns = 0;
  std::vector<std::string> problems;  // files that could not be read
};
TraceCounts count_trace(const std::string& path);

struct RunFacts {
  double seconds = 0;
  int rank = -1, pid = 0, status = 0;
  bool signaled = false;
  std::string kept_trace;  // empty: it was temporary
};
std::string summary_text(const RunFacts& run, const TraceCounts& counts);

}  // namespace shunt::tool
