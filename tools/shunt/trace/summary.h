// What happened in a run, in numbers: decisions per feature and outcome with their main reasons, calls,
// device time, losses. One pass; the text form keeps to eight lines so that it can end every run.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "tools/shunt/trace/trace_run.h"

namespace shunt::tool {

struct FeatureSummary {
  uint64_t decisions = 0, applied = 0, declined = 0, failed = 0, shadow = 0, bytes = 0;
  std::map<uint16_t, uint64_t> reasons_declined, reasons_applied;
  uint64_t gpu_ns = 0, gpu_records = 0;  // device work tied to decisions by id
};

struct RunSummary {
  std::map<uint8_t, FeatureSummary> features;
  std::map<uint16_t, uint64_t> calls;  // by slot
  uint64_t kernels = 0, copies = 0, sets = 0, graphs = 0, lost_stamps = 0, kernel_ns = 0;
  uint64_t cupti_lost = 0;  // records CUPTI had no room for
  std::string gpu_refused;  // why there are no device times although they were asked for
  uint64_t strings = 0, counters = 0, clocks = 0;
  double seconds = 0;
};

RunSummary summarise(const TraceRun& run, const Progress& progress = {});
std::string summary_text(const TraceRun& run, const RunSummary& summary);
std::string summary_json(const TraceRun& run, const RunSummary& summary);
std::string summary_csv(const RunSummary& summary);

// Differences of two runs: counts per feature and outcome and per reason; changed is true when any count
// differs by more than `threshold` (relative, 0.1 = 10 %) and by more than one.
struct RunDifference {
  std::string text;
  bool changed = false;
};
RunDifference diff_runs(const RunSummary& a, const RunSummary& b, double threshold);

// What is whole, what was salvaged, what is lost; true when nothing is.
bool check_run(const TraceRun& run, std::string& text);

uint64_t file_bytes(const TraceRun& run);                  // of all its files
std::string bytes_text(uint64_t bytes);                    // "6.1 MiB"
std::string count_text(uint64_t count);                    // "1,204"
std::string gpu_time_text(const FeatureSummary& feature);  // "-" where none was measured
std::string gpu_times_text(const RunSummary& summary);     // where device times come from, and what was lost
std::string duration_text(double seconds);                 // "41.2 s", "12.5 ms"

}  // namespace shunt::tool
