#include "tools/shunt/trace/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace shunt::tool {

namespace {

struct Counter {
  RunSummary& s;
  // Dense tables keep the pass at memory speed; the maps of RunSummary are filled from them at the end.
  struct Cell {
    uint64_t outcomes[4] = {}, bytes = 0, gpu_ns = 0, gpu_records = 0;
  };
  std::vector<Cell> cells = std::vector<Cell>(256);
  std::vector<uint64_t> reasons = std::vector<uint64_t>(size_t{1} << 21),
                        calls = std::vector<uint64_t>(65536);

  static size_t reason_slot(uint8_t feature, bool applied, uint16_t reason) {
    return (size_t{feature} & 0xFu) << 17 | size_t{applied} << 16 | reason;
  }

  void operator()(const RecordContext& c, const trace::RecordHeader& r) {
    if (const auto* d = as_decision(r)) {
      if (static_cast<trace::RecordType>(r.type) == trace::RecordType::decision_begin)
        return;  // counted at its end
      Cell& cell = cells[d->feature];
      ++cell.outcomes[d->outcome & 3];
      cell.bytes += d->bytes;
      if (d->action == static_cast<uint8_t>(trace::Action::gpu_trace) && d->outcome)
        s.gpu_refused = reason_name(static_cast<Reason>(d->reason));
      ++reasons[reason_slot(d->feature, d->outcome == 0, d->reason)];
    } else if (const auto* call = as_call(r)) {
      ++calls[call->slot];
    } else if (const auto* g = as_gpu(r)) {
      gpu(c, r, *g);
    } else {
      const auto type = static_cast<trace::RecordType>(r.type);
      s.strings += type == trace::RecordType::string;
      s.counters += type == trace::RecordType::counter;
      if (const auto* counter = as_counter(r);
          counter && c.process.reader.string(r.id) == "cupti records lost")
        s.cupti_lost += counter->value;
      s.clocks += type == trace::RecordType::clock;
    }
  }
  void gpu(const RecordContext&, const trace::RecordHeader& r, const trace::GpuRecord& g) {
    const auto type = static_cast<trace::RecordType>(r.type);
    s.kernels += type == trace::RecordType::cupti_kernel;
    s.copies += type == trace::RecordType::cupti_memcpy;
    s.sets += type == trace::RecordType::cupti_memset;
    s.graphs += type == trace::RecordType::cupti_graph;
    if (g.start == 0 || g.end < g.start) {
      ++s.lost_stamps;
      return;
    }
    if (type == trace::RecordType::cupti_kernel || type == trace::RecordType::cupti_graph)
      s.kernel_ns += g.end - g.start;
    if (r.flags) {
      Cell& cell = cells[(r.flags - 1) & 255];
      cell.gpu_ns += g.end - g.start;
      ++cell.gpu_records;
    }
  }

  void finish() {
    for (size_t f = 0; f < 256; ++f) {
      const Cell& cell = cells[f];
      const uint64_t all = cell.outcomes[0] + cell.outcomes[1] + cell.outcomes[2] + cell.outcomes[3];
      if (all == 0) continue;
      FeatureSummary& feature = s.features[static_cast<uint8_t>(f)];
      feature.decisions = all;
      feature.applied = cell.outcomes[0];
      feature.declined = cell.outcomes[1];
      feature.failed = cell.outcomes[2];
      feature.shadow = cell.outcomes[3];
      feature.bytes = cell.bytes;
      feature.gpu_ns = cell.gpu_ns;
      feature.gpu_records = cell.gpu_records;
      for (uint32_t reason = 0; reason < 65536; ++reason) {
        const uint8_t id = static_cast<uint8_t>(f);
        if (const uint64_t n = reasons[reason_slot(id, true, static_cast<uint16_t>(reason))])
          feature.reasons_applied[static_cast<uint16_t>(reason)] = n;
        if (const uint64_t n = reasons[reason_slot(id, false, static_cast<uint16_t>(reason))])
          feature.reasons_declined[static_cast<uint16_t>(reason)] = n;
      }
    }
    for (uint32_t slot = 0; slot < 65536; ++slot) {
      if (calls[slot]) s.calls[static_cast<uint16_t>(slot)] = calls[slot];
    }
  }
};

std::string main_reason(const std::map<uint16_t, uint64_t>& reasons) {
  if (reasons.empty()) return "-";
  const auto top = std::max_element(reasons.begin(), reasons.end(),
                                    [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("{} ({})", reason_name(static_cast<Reason>(top->first)), count_text(top->second));
}

std::string feature_text(uint8_t feature) {
  return std::string(trace::feature_name(static_cast<trace::Feature>(feature)));
}

}  // namespace

uint64_t file_bytes(const TraceRun& run) {
  uint64_t sum = 0;
  for (const auto& p : run.processes) sum += p->reader.file_bytes();
  return sum;
}

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return unit ? fmt::format("{:.1f} {}", value, kUnit[unit]) : fmt::format("{} B", bytes);
}

std::string count_text(uint64_t count) {
  std::string digits = std::to_string(count);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string duration_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  return seconds >= 1e-3 || seconds == 0 ? fmt::format("{:.1f} ms", seconds * 1e3)
                                         : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string gpu_time_text(const FeatureSummary& f) {
  return f.gpu_records ? duration_text(static_cast<double>(f.gpu_ns) * 1e-9) : "-";
}

std::string gpu_times_text(const RunSummary& s) {
  if (s.kernels + s.graphs + s.copies + s.sets == 0)
    return s.gpu_refused.empty() ? "none (--gpu-trace)" : "none, " + s.gpu_refused;
  std::string out = "cupti";
  if (s.cupti_lost) out += fmt::format(", {} lost", count_text(s.cupti_lost));
  if (s.lost_stamps) out += fmt::format(", {} without stamps", count_text(s.lost_stamps));
  return out;
}

RunSummary summarise(const TraceRun& run, const Progress& progress) {
  RunSummary s;
  Counter counter{s};
  visit_records(run, counter, progress);
  counter.finish();
  s.seconds = static_cast<double>(run.last_ns - run.first_ns) * 1e-9;
  return s;
}

std::string summary_text(const TraceRun& run, const RunSummary& s) {
  std::string out = fmt::format("[shunt] {}, {} process{}\n", duration_text(s.seconds), run.processes.size(),
                                run.processes.size() == 1 ? "" : "es");
  out += fmt::format("{:<10}{:>10}{:>9}{:>10}{:>11}  {}\n", "feature", "decisions", "applied", "declined",
                     "gpu time", "main reason declined");
  size_t lines = 0;
  for (const auto& [id, f] : s.features) {
    if (id == static_cast<uint8_t>(trace::Feature::process) || ++lines > 4) continue;  // eight lines at most
    out += fmt::format("{:<10}{:>10}{:>9}{:>10}{:>11}  {}\n", feature_text(id), count_text(f.decisions),
                       count_text(f.applied), count_text(f.declined + f.shadow), gpu_time_text(f),
                       main_reason(f.reasons_declined));
  }
  const auto losses = run.losses();
  out += fmt::format("trace: {} {}, {} records, {} dropped; gpu times: {}\n", run.path,
                     bytes_text(file_bytes(run)), count_text(run.records),
                     count_text(losses.dropped + losses.overwritten), gpu_times_text(s));
  out += fmt::format("next: shunt trace report {}\n", run.path);
  return out;
}

std::string summary_json(const TraceRun& run, const RunSummary& s) {
  nlohmann::json j{{"schema", 1},
                   {"path", run.path},
                   {"seconds", s.seconds},
                   {"records", run.records},
                   {"processes", nlohmann::json::array()},
                   {"features", nlohmann::json::object()}};
  for (const auto& p : run.processes)
    j["processes"].push_back({{"pid", p->pid()}, {"rank", p->rank()}, {"records", p->reader.record_count()}});
  for (const auto& [id, f] : s.features) {
    nlohmann::json reasons = nlohmann::json::object();
    for (const auto* table : {&f.reasons_applied, &f.reasons_declined}) {
      for (const auto& [reason, n] : *table) {
        const std::string name(reason_name(static_cast<Reason>(reason)));
        reasons[name] = reasons.value(name, uint64_t{0}) + n;
      }
    }
    j["features"][feature_text(id)] = {
        {"decisions", f.decisions}, {"applied", f.applied},
        {"declined", f.declined},   {"failed", f.failed},
        {"shadow", f.shadow},       {"bytes", f.bytes},
        {"reasons", reasons},       {"gpu_ns", f.gpu_records ? nlohmann::json(f.gpu_ns) : nlohmann::json()}};
  }
  j["calls"] = nlohmann::json::object();
  for (const auto& [slot, n] : s.calls)
    j["calls"][std::string(slot_name(slot))] =
        j["calls"].value(std::string(slot_name(slot)), uint64_t{0}) + n;
  j["gpu"] = {{"kernels", s.kernels},         {"copies", s.copies},       {"sets", s.sets},
              {"graphs", s.graphs},           {"kernel_ns", s.kernel_ns}, {"lost_stamps", s.lost_stamps},
              {"lost_records", s.cupti_lost}, {"refused", s.gpu_refused}};
  const auto l = run.losses();
  j["losses"] = {{"dropped", l.dropped},       {"overwritten", l.overwritten},
                 {"bad_chunks", l.bad_chunks}, {"torn_chunks", l.torn_chunks},
                 {"truncated", l.truncated},   {"unreadable_files", run.unreadable}};
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string summary_csv(const RunSummary& s) {
  std::string out = "feature,decisions,applied,declined,failed,shadow,bytes,gpu_ns\n";
  for (const auto& [id, f] : s.features)
    out += fmt::format("{},{},{},{},{},{},{},{}\n", feature_text(id), f.decisions, f.applied, f.declined,
                       f.failed, f.shadow, f.bytes, f.gpu_records ? std::to_string(f.gpu_ns) : "");
  return out;
}

RunDifference diff_runs(const RunSummary& a, const RunSummary& b, double threshold) {
  RunDifference d;
  d.text = fmt::format("{:<44}{:>12}{:>12}{:>10}\n", "", "A", "B", "change");
  auto line = [&](const std::string& name, uint64_t x, uint64_t y) {
    if (x == 0 && y == 0) return;
    const double change = x ? (static_cast<double>(y) - static_cast<double>(x)) / static_cast<double>(x) : 1;
    const bool far = std::abs(change) > threshold && (x > y ? x - y : y - x) > 1;
    d.changed |= far;
    if (x == y) return;
    d.text += fmt::format("{:<44}{:>12}{:>12}{:>10}{}\n", name, count_text(x), count_text(y),
                          x ? fmt::format("{:+.1f} %", 100 * change) : "new", far ? "  *" : "");
  };
  auto features = a.features;
  features.insert(b.features.begin(), b.features.end());
  static const FeatureSummary kNone;
  for (const auto& [id, unused] : features) {
    const auto at = a.features.find(id), bt = b.features.find(id);
    const FeatureSummary &x = at == a.features.end() ? kNone : at->second,
                         &y = bt == b.features.end() ? kNone : bt->second;
    const std::string name = feature_text(id);
    line(name + " decisions", x.decisions, y.decisions);
    line(name + " applied", x.applied, y.applied);
    line(name + " declined", x.declined, y.declined);
    line(name + " failed", x.failed, y.failed);
    auto reasons = x.reasons_declined;
    reasons.insert(y.reasons_declined.begin(), y.reasons_declined.end());
    for (const auto& [reason, n] : reasons) {
      const auto xr = x.reasons_declined.find(reason), yr = y.reasons_declined.find(reason);
      line(fmt::format("  {} declined: {}", name, reason_name(static_cast<Reason>(reason))),
           xr == x.reasons_declined.end() ? 0 : xr->second, yr == y.reasons_declined.end() ? 0 : yr->second);
    }
  }
  auto calls = a.calls;
  calls.insert(b.calls.begin(), b.calls.end());
  for (const auto& [slot, n] : calls) {
    const auto x = a.calls.find(slot), y = b.calls.find(slot);
    line(std::string(slot_name(slot)), x == a.calls.end() ? 0 : x->second,
         y == b.calls.end() ? 0 : y->second);
  }
  line("device time of kernels and graphs (us)", a.kernel_ns / 1000, b.kernel_ns / 1000);
  return d;
}

bool check_run(const TraceRun& run, std::string& text) {
  bool whole = run.unreadable.empty();
  const RunSummary summary = summarise(run);
  for (const auto& p : run.processes) {
    const auto& l = p->reader.losses();
    const bool good = l.dropped == 0 && l.bad_chunks == 0 && l.torn_chunks == 0 && !l.truncated;
    whole &= good;
    static constexpr const char* kState[] = {"still writing, or killed", "closed", "stopped at --trace-max",
                                             "stopped: disk full"};
    const uint32_t state = static_cast<uint32_t>(p->reader.state());
    text += fmt::format("{}: {} records, {} ({})\n", p->reader.path(), count_text(p->reader.record_count()),
                        good ? "whole" : "damaged", state < 4 ? kState[state] : "?");
    if (l.dropped)
      text += fmt::format("  {} records dropped: the writer found no room\n", count_text(l.dropped));
    if (l.overwritten) text += fmt::format("  {} records recycled by ring mode\n", count_text(l.overwritten));
    if (l.torn_chunks) text += fmt::format("  {} chunks salvaged up to a bad record\n", l.torn_chunks);
    if (l.bad_chunks) text += fmt::format("  {} chunks lost: no valid header\n", l.bad_chunks);
    if (l.truncated) text += "  the file is cut off: its last chunks are missing\n";
  }
  // The trace is whole all the same: these never came to it.
  if (summary.cupti_lost) text += fmt::format("  CUPTI lost {} records\n", count_text(summary.cupti_lost));
  if (summary.lost_stamps)
    text += fmt::format("  {} device records came without stamps\n", count_text(summary.lost_stamps));
  if (!summary.gpu_refused.empty()) text += "  no device times: " + summary.gpu_refused + "\n";
  for (const std::string& line : run.unreadable) text += line + "\n";
  return whole;
}

}  // namespace shunt::tool
