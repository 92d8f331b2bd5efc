// What the report shows, gathered in one pass with bounded memory.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tools/shunt/trace/call_site_table.h"
#include "tools/shunt/trace/stream_times.h"
#include "tools/shunt/trace/summary.h"

namespace shunt::tool {

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
  StreamTimes streams;
  std::map<StreamTimes::Key, std::string> stream_names;
  std::map<std::string, CounterLine> counters;
  std::map<std::string, uint64_t> cupti;  // what CUPTI delivered and lost
  std::vector<Episode> episodes;
  uint64_t episodes_left_out = 0;
  std::vector<uint64_t> launches = std::vector<uint64_t>(kBins), replays = std::vector<uint64_t>(kBins);
  SiteCounts by_site;
  std::vector<std::string> settings;
};

ReportData gather_report(const TraceRun& run, const Progress& progress);

}  // namespace shunt::tool
