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
      count_site(data.by_site, c, *d);
    } else if (const auto* call = as_call(r)) {
      if (slot_name(call->slot).starts_with("cuLaunch")) ++data.launches[bin(r.t_ns)];
    } else if (const auto* counter = as_counter(r)) {
      const std::string name(c.process.reader.string(r.id));
      if (name.starts_with("cupti ")) {
        data.cupti[name] += counter->value;  // totals of the end, not a line over time
        return;
      }
      if (data.counters.size() >= 24 && !data.counters.count(name)) return;
      CounterLine& line = data.counters[name];
      line.value[bin(r.t_ns)] = static_cast<double>(counter->value);
      line.most = std::max(line.most, static_cast<double>(counter->value));
    } else if (const auto* g = as_gpu(r)) {
      const uint64_t start = c.process.engine_from_realtime(g->start);
      if (start == 0 || g->end < g->start) return;
      std::string& name = data.stream_names[{g->device, g->stream}];
      if (name.empty()) name = stream_name(c.process, g->stream);
      // A graph is one record or its nodes are: both say that it ran inside one.
      data.streams.add({g->device, g->stream}, start, start + (g->end - g->start),
                       g->graph_id != 0 || g->graph_node != 0 ||
                           static_cast<trace::RecordType>(r.type) == trace::RecordType::cupti_graph);
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
  data.streams.finish(run.first_ns, run.last_ns);
  std::sort(data.settings.begin(), data.settings.end());
  data.settings.erase(std::unique(data.settings.begin(), data.settings.end()), data.settings.end());
  return data;
}

}  // namespace shunt::tool
