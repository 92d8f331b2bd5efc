#include "tools/shunt/run_summary.h"

#include <fmt/format.h>

#include "runtime/config/options.h"
#include "tools/shunt/console.h"

namespace shunt::tool {
namespace {

std::string grouped(uint64_t n) {
  std::string digits = std::to_string(n);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string main_reason(const FeatureCounts& f) {
  uint16_t best = 0;
  uint64_t most = 0;
  for (const auto& [reason, n] : f.reasons)
    if (n > most) most = n, best = reason;
  if (most == 0) return "-";
  return std::string(reason_name(static_cast<Reason>(best))) +
         (f.declined + f.failed == 1 ? "" : " (" + grouped(most) + ")");
}

}  // namespace

TraceCounts count_trace(const std::string& path) {
  TraceCounts out;
  for (const std::string& file : trace::trace_files(path)) {
    auto opened = trace::Reader::open(file);
    if (!opened) {
      out.problems.push_back(opened.error().message);
      continue;
    }
    const trace::Reader& reader = *opened;
    out.processes++;
    out.records += reader.record_count();
    out.bytes += reader.file_bytes();
    out.dropped += reader.losses().dropped;
    out.overwritten += reader.losses().overwritten;
    out.torn += reader.losses().torn_chunks;
    out.bad_chunks += reader.losses().bad_chunks;
    reader.for_each([&](const trace::RecordHeader& r, uint32_t) {
      out.first_ns = std::min(out.first_ns, r.t_ns);
      out.last_ns = std::max(out.last_ns, r.t_ns);
      const auto type = static_cast<trace::RecordType>(r.type);
      if (type == trace::RecordType::call && r.size >= sizeof(trace::CallRecord))
        out.calls[reinterpret_cast<const trace::CallRecord&>(r).slot]++;
      // A span counts once, when its outcome is known.
      if ((type != trace::RecordType::decision && type != trace::RecordType::decision_end) ||
          r.size < sizeof(trace::DecisionRecord))
        return;
      const auto& d = reinterpret_cast<const trace::DecisionRecord&>(r);
      FeatureCounts& f = out.features[d.feature];
      f.decisions++;
      f.actions[d.action]++;
      f.all_reasons[d.reason]++;
      switch (static_cast<trace::Outcome>(d.outcome)) {
        case trace::Outcome::applied:
          f.applied++;
          break;
        case trace::Outcome::shadow:
          f.shadow++;
          break;
        case trace::Outcome::failed:
          f.failed++, f.reasons[d.reason]++;
          break;
        case trace::Outcome::declined:
          f.declined++, f.reasons[d.reason]++;
          break;
      }
    });
  }
  return out;
}

std::string summary_text(const RunFacts& run, const TraceCounts& counts) {
  std::string out = fmt::format(
      "{:.1f} s, {}pid {}, {}\n", run.seconds, run.rank >= 0 ? fmt::format("rank {}, ", run.rank) : "",
      run.pid,
      run.signaled ? fmt::format("signal {}", run.status - 128) : fmt::format("exit {}", run.status));
  std::vector<std::vector<std::string>> rows{
      {"feature", "decisions", "applied", "declined", "main reason declined", "gpu time"}};
  for (const auto feature :
       {trace::Feature::graph, trace::Feature::comm, trace::Feature::oom, trace::Feature::placement}) {
    const FeatureCounts& f = counts.features[static_cast<size_t>(feature)];
    rows.push_back({std::string(trace::feature_name(feature)), grouped(f.decisions), grouped(f.applied),
                    grouped(f.declined + f.failed), main_reason(f), "-"});
  }
  out += table(rows);
  const std::string dropped = grouped(counts.dropped) + " dropped";
  if (counts.processes == 0) {
    out += "trace: none, no process made a CUDA call\n";
    out +=
        run.kept_trace.empty() ? "next: shunt devices\n" : "next: shunt trace check " + run.kept_trace + "\n";
  } else if (run.kept_trace.empty()) {
    out += fmt::format("trace: not kept, {} records, {}; gpu times: from nsys only\n",
                       grouped(counts.records), dropped);
    out += "next: shunt run -o NAME ... keeps every decision\n";
  } else {
    out += fmt::format("trace: {} {}, {}; gpu times: from nsys only\n", run.kept_trace,
                       config::format_bytes(counts.bytes), dropped);
    out += "next: shunt trace summary " + run.kept_trace + "\n";
  }
  return out;
}

}  // namespace shunt::tool
