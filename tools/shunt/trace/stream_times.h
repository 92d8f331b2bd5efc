// When each device stream was busy, exactly: unions of its records' intervals, the gaps between them, and how
// long several streams of a device worked at once. Memory: 16 bytes a record, merged as they come.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace shunt::tool {

inline constexpr size_t kBins = 600;
using Bins = std::array<uint64_t, kBins>;

struct Interval {
  uint64_t start, end;
};

struct StreamStrip {
  std::vector<Interval> busy, replay;  // after finish(): sorted, disjoint; replay: inside a graph
  uint64_t records = 0, busy_ns = 0, replay_ns = 0;
  uint64_t gaps = 0, gap_ns = 0, longest_gap_ns = 0,
           longest_gap_at = 0;  // between the first and the last record
  Bins busy_bins{}, replay_bins{};
};

struct DeviceTimes {
  uint64_t any_ns = 0, several_ns = 0, idle_ns = 0;  // idle: between the first and the last record
  Bins several_bins{};
};

class StreamTimes {
 public:
  using Key = std::pair<uint32_t, uint32_t>;  // device, stream
  static constexpr size_t kMostStreams = 256;
  void add(Key key, uint64_t start, uint64_t end, bool in_graph);
  // Once, after the last add(): first and last are the ends of the time axis.
  void finish(uint64_t first, uint64_t last);

  std::map<Key, StreamStrip> streams;
  std::map<uint32_t, DeviceTimes> devices;
  uint64_t left_out = 0;  // records of streams beyond kMostStreams

 private:
  void spread(Bins& bins, const Interval& i) const;
  uint64_t first_ = 0;
  double width_ = 0;
};

}  // namespace shunt::tool
