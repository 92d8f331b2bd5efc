#include "tools/shunt/run_summary.h"

#include <fmt/format.h>

#include "runtime/config/options.h"
#include "tools/shunt/console.h"
#include "tools/shunt/trace/summary.h"

namespace shunt::tool {
namespace {

std::string main_reason(const FeatureSummary& f) {
  uint16_t best = 0;
  uint64_t most = 0;
  for (const auto& [reason, n] : f.reasons_declined)
    if (n > most) most = n, best = reason;
  if (most == 0) return "-";
  return std::string(reason_name(static_cast<Reason>(best))) +
         (f.declined + f.failed == 1 ? "" : " (" + count_text(most) + ")");
}

}  // namespace

std::string end_of_run_text(const RunFacts& run, const std::string& trace_folder) {
  TraceRun traced;
  std::string error;
  const bool any = open_run(trace_folder, traced, error);
  const RunSummary counts = any ? summarise(traced) : RunSummary{};
  std::string out = fmt::format(
      "{:.1f} s, {}pid {}, {}\n", run.seconds, run.rank >= 0 ? fmt::format("rank {}, ", run.rank) : "",
      run.pid,
      run.signaled ? fmt::format("signal {}", run.status - 128) : fmt::format("exit {}", run.status));
  std::vector<std::vector<std::string>> rows{
      {"feature", "decisions", "applied", "declined", "main reason declined", "gpu time"}};
  for (const auto feature :
       {trace::Feature::graph, trace::Feature::comm, trace::Feature::oom, trace::Feature::placement}) {
    static const FeatureSummary kNone;
    const auto at = counts.features.find(static_cast<uint8_t>(feature));
    const FeatureSummary& f = at == counts.features.end() ? kNone : at->second;
    rows.push_back({std::string(trace::feature_name(feature)), count_text(f.decisions), count_text(f.applied),
                    count_text(f.declined + f.failed), main_reason(f), gpu_time_text(f)});
  }
  out += table(rows);
  const std::string dropped = count_text(traced.losses().dropped) + " dropped";
  if (!any) {
    out += "trace: none, no process made a CUDA call\n";
    out +=
        run.kept_trace.empty() ? "next: shunt devices\n" : "next: shunt trace check " + run.kept_trace + "\n";
  } else if (run.kept_trace.empty()) {
    out += fmt::format("trace: not kept, {} records, {}; gpu times: {}\n", count_text(traced.records),
                       dropped, gpu_times_text(counts));
    out += "next: shunt run -o NAME ... keeps every decision\n";
  } else {
    out += fmt::format("trace: {} {}, {}; gpu times: {}\n", run.kept_trace,
                       config::format_bytes(file_bytes(traced)), dropped, gpu_times_text(counts));
    out += "next: shunt trace summary " + run.kept_trace + "\n";
  }
  return out;
}

}  // namespace shunt::tool
