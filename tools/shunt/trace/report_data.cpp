#include "tools/shunt/trace/report_data.h"

#include <algorithm>

namespace shunt::tool {

namespace {

constexpr size_t kMostEpisodes = 400;

struct Gatherer {
  const TraceRun& run;
  ReportData& data;
  double scale = 0;

  size_t bin(uint64_t t) const {
    if (t <= run.first_ns) return 0;
    return std::min(kBins - 1, static_cast<size_t>(static_cast<double>(t - run.first_ns) * scale));
  }

  // Spreads [start, end) over bins.
  void spread(std::vector<uint64_t>& bins, uint64_t start, uint64_t end) const {
    const size_t from = bin(start), to = bin(end ? end - 1 : 0);
    if (from == to) {
      bins[from] += end - start;
      return;
    }
    const double width = scale > 0 ? 1 / scale : 0;
    for (size_t b = from; b <= to; ++b) {
      const double low = static_cast<double>(run.first_ns) + width * static_cast<double>(b);
      const double part =
          std::min(static_cast<double>(end), low + width) - std::max(static_cast<double>(start), low);
      if (part > 0) bins[b] += static_cast<uint64_t>(part);
    }
  }

  void operator()(const RecordContext& c, const trace::RecordHeader& r) {
    if (const auto* d = as_decision(r)) {
      const auto feature = static_cast<trace::Feature>(d->feature);
      if (static_cast<trace::RecordType>(r.type) == trace::RecordType::decision_begin) return;
      if (feature == trace::Feature::oom) {
        if (data.episodes.size() < kMostEpisodes)
          data.episodes.push_back({r.t_ns, d->bytes, d->action, d->outcome, d->reason, d->device});
        else
          ++data.episodes_left_out;
      }
      if (static_cast<trace::Action>(d->action) == trace::Action::graph_replay && d->outcome == 0)
        ++data.replays[bin(r.t_ns)];
      if (d->stack && (data.by_site.size() < 256 || data.by_site.count({d->feature, d->reason})))
        ++data.by_site[{d->feature, d->reason}][uint64_t{c.process_index} << 32 | d->stack];
    } else if (const auto* call = as_call(r)) {
      if (slot_name(call->slot).starts_with("cuLaunch")) ++data.launches[bin(r.t_ns)];
    } else if (const auto* counter = as_counter(r)) {
      const std::string name(c.process.reader.string(r.id));
      if (data.counters.size() >= 24 && !data.counters.count(name)) return;
      CounterLine& line = data.counters[name];
      line.value[bin(r.t_ns)] = static_cast<double>(counter->value);
      line.most = std::max(line.most, static_cast<double>(counter->value));
    } else if (const auto* g = as_gpu(r)) {
      const uint64_t start = c.process.engine_from_realtime(g->start);
      if (start == 0 || g->end < g->start) return;
      if (data.streams.size() >= 64 && !data.streams.count({g->device, g->stream})) return;
      StreamStrip& strip = data.streams[{g->device, g->stream}];
      spread(strip.busy, start, start + (g->end - g->start));
      if (g->graph_id) spread(strip.replay, start, start + (g->end - g->start));
      strip.total_ns += g->end - g->start;
      ++strip.records;
    } else if (static_cast<trace::RecordType>(r.type) == trace::RecordType::setting &&
               data.settings.size() < 200) {
      data.settings.emplace_back(c.process.reader.string(r.id));
    }
  }
};

}  // namespace

ReportData gather_report(const TraceRun& run, const Progress& progress) {
  ReportData data;
  data.summary = summarise(run);
  Gatherer gatherer{run, data,
                    run.last_ns > run.first_ns
                        ? static_cast<double>(kBins) / static_cast<double>(run.last_ns - run.first_ns)
                        : 0};
  visit_records(run, gatherer, progress);
  const double width = gatherer.scale > 0 ? 1 / gatherer.scale : 0;
  for (size_t b = 0; b < kBins; ++b) {
    std::map<uint32_t, std::vector<double>> busy;
    for (const auto& [key, strip] : data.streams)
      busy[key.first].push_back(static_cast<double>(strip.busy[b]));
    for (auto& [device, list] : busy) {
      double sum = 0, most = 0;
      for (double v : list) sum += v, most = std::max(most, v);
      // At least this much of the bin had two streams busy (exact when streams are busy throughout it).
      data.overlap_ns[b] += static_cast<uint64_t>(std::max(0.0, std::min(sum - most, sum - width)));
    }
  }
  std::sort(data.settings.begin(), data.settings.end());
  data.settings.erase(std::unique(data.settings.begin(), data.settings.end()), data.settings.end());
  return data;
}

}  // namespace shunt::tool
