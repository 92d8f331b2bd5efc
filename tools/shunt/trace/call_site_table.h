// Where in the program decisions come from: the busiest (feature, reason, call site) with names from the
// files on this machine.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/shunt/trace/trace_run.h"

namespace shunt::tool {

// (feature, reason) -> process index << 32 | stack -> count
using SiteCounts = std::map<std::pair<uint8_t, uint16_t>, std::map<uint64_t, uint64_t>>;

void count_site(SiteCounts& counts, const RecordContext& context, const trace::DecisionRecord& decision);

struct SiteRow {
  uint64_t count;
  uint8_t feature;
  uint16_t reason;
  uint32_t pid;
  std::string site;  // frames, innermost first, " < " between them
};
// The `most` busiest, largest first.
std::vector<SiteRow> busiest_sites(const TraceRun& run, const SiteCounts& counts, size_t most);
// "reasons by call site" for a terminal.
std::string sites_text(const TraceRun& run, size_t most, const Progress& progress);

}  // namespace shunt::tool
