#include "tools/shunt/trace/stream_times.h"

#include <algorithm>

namespace shunt::tool {
namespace {

// Records come nearly in order, so most join the last interval at once and the list stays short.
void join(std::vector<Interval>& list, Interval next) {
  if (!list.empty() && next.start >= list.back().start && next.start <= list.back().end)
    list.back().end = std::max(list.back().end, next.end);
  else
    list.push_back(next);
}

void merge(std::vector<Interval>& list) {
  std::sort(list.begin(), list.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  std::vector<Interval> out;
  for (const Interval& i : list) join(out, i);
  list = std::move(out);
}

uint64_t total(const std::vector<Interval>& list) {
  uint64_t sum = 0;
  for (const Interval& i : list) sum += i.end - i.start;
  return sum;
}

}  // namespace

void StreamTimes::add(Key key, uint64_t start, uint64_t end, bool in_graph) {
  if (streams.size() >= kMostStreams && !streams.count(key)) {
    ++left_out;
    return;
  }
  StreamStrip& strip = streams[key];
  ++strip.records;
  join(strip.busy, {start, end});
  if (in_graph) join(strip.replay, {start, end});
}

void StreamTimes::spread(Bins& bins, const Interval& i) const {
  const auto bin = [&](uint64_t t) {
    if (width_ <= 0 || t <= first_) return size_t{0};
    return std::min(kBins - 1, static_cast<size_t>(static_cast<double>(t - first_) / width_));
  };
  const size_t from = bin(i.start), to = bin(i.end);
  for (size_t b = from; b <= to; ++b) {
    const double low = static_cast<double>(first_) + width_ * static_cast<double>(b);
    const double part = from == to ? static_cast<double>(i.end - i.start)
                                   : std::min(static_cast<double>(i.end), low + width_) -
                                         std::max(static_cast<double>(i.start), low);
    if (part > 0) bins[b] += static_cast<uint64_t>(part);
  }
}

void StreamTimes::finish(uint64_t first, uint64_t last) {
  first_ = first;
  width_ = last > first ? static_cast<double>(last - first) / static_cast<double>(kBins) : 0;
  struct Edge {
    uint64_t at;
    int step;
  };
  std::map<uint32_t, std::vector<Edge>> edges;
  for (auto& [key, strip] : streams) {
    merge(strip.busy);
    merge(strip.replay);
    strip.busy_ns = total(strip.busy), strip.replay_ns = total(strip.replay);
    for (size_t i = 0; i < strip.busy.size(); ++i) {
      const Interval& now = strip.busy[i];
      spread(strip.busy_bins, now);
      edges[key.first].push_back({now.start, 1});
      edges[key.first].push_back({now.end, -1});
      if (i == 0) continue;
      const uint64_t gap = now.start - strip.busy[i - 1].end;
      ++strip.gaps, strip.gap_ns += gap;
      if (gap > strip.longest_gap_ns)
        strip.longest_gap_ns = gap, strip.longest_gap_at = strip.busy[i - 1].end;
    }
    for (const Interval& i : strip.replay) spread(strip.replay_bins, i);
  }
  for (auto& [device, list] : edges) {
    std::sort(list.begin(), list.end(), [](const Edge& a, const Edge& b) {
      return a.at != b.at ? a.at < b.at : a.step < b.step;  // an end first: touching is no overlap
    });
    DeviceTimes& times = devices[device];
    int busy = 0;
    uint64_t since = list.front().at;
    for (const Edge& e : list) {
      (busy == 0 ? times.idle_ns : times.any_ns) += e.at - since;
      if (busy > 1) {
        times.several_ns += e.at - since;
        spread(times.several_bins, {since, e.at});
      }
      busy += e.step;
      since = e.at;
    }
  }
}

}  // namespace shunt::tool
