// What the report shows, gathered in one pass with bounded memory.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tools/shunt/trace/summary.h"

namespace shunt::tool {

inline constexpr size_t kBins = 600;

struct StreamStrip {  // busy nanoseconds per bin of one device stream
  std::vector<uint64_t> busy = std::vector<uint64_t>(kBins), replay = std::vector<uint64_t>(kBins);
  uint64_t total_ns = 0, records = 0;
};

struct CounterLine {  // last value per bin; -1 where none
  std::vector<double> value = std::vector<double>(kBins, -1);
  double most = 0;
};

struct Episode {  // memory-engine decisions in order, the first few hundred
  uint64_t t_ns, bytes;
  uint8_t action, outcome;
  uint16_t reason;
  int16_t device;
};

struct ReportData {
  RunSummary summary;
  std::map<std::pair<uint32_t, uint32_t>, StreamStrip> streams;  // (device, stream)
  std::vector<uint64_t> overlap_ns =
      std::vector<uint64_t>(kBins);  // with two or more streams of a device busy, per bin
  std::map<std::string, CounterLine> counters;
  std::vector<Episode> episodes;
  uint64_t episodes_left_out = 0;
  std::vector<uint64_t> launches = std::vector<uint64_t>(kBins), replays = std::vector<uint64_t>(kBins);
  std::map<std::pair<uint8_t, uint16_t>, std::map<uint64_t, uint64_t>>
      by_site;  // (feature, reason) -> process index << 32 | stack -> count
  std::vector<std::string> settings;
};

ReportData gather_report(const TraceRun& run, const Progress& progress);

}  // namespace shunt::tool
