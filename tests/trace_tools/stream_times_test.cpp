// Busy, gaps and overlap of device streams: exact, whatever the order in which records come.
#include "tools/shunt/trace/stream_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shunt::tool {
namespace {

TEST(StreamTimes, UnionsGapsAndOverlap) {
  StreamTimes t;
  t.add({0, 7}, 100, 200, false);
  t.add({0, 7}, 150, 250, true);   // overlaps the first: 100..250
  t.add({0, 7}, 300, 400, false);  // gap of 50
  t.add({0, 7}, 400, 410, false);  // touches: no gap
  t.add({0, 8}, 390, 500, false);  // 20 together with stream 7
  t.add({1, 7}, 0, 1000, false);   // another device overlaps nothing
  t.finish(0, 1000);
  const StreamStrip& s = t.streams.at({0, 7});
  EXPECT_EQ(s.records, 4u);
  EXPECT_EQ(s.busy_ns, 260u);
  EXPECT_EQ(s.replay_ns, 100u);
  EXPECT_EQ(s.gaps, 1u);
  EXPECT_EQ(s.gap_ns, 50u);
  EXPECT_EQ(s.longest_gap_ns, 50u);
  EXPECT_EQ(s.longest_gap_at, 250u);
  EXPECT_EQ(t.devices.at(0).any_ns, 350u);
  EXPECT_EQ(t.devices.at(0).several_ns, 20u);
  EXPECT_EQ(t.devices.at(0).idle_ns, 50u);
  EXPECT_EQ(t.devices.at(1).several_ns, 0u);
  uint64_t binned = 0;
  for (uint64_t b : s.busy_bins) binned += b;
  EXPECT_NEAR(static_cast<double>(binned), 260, static_cast<double>(kBins));
}

// Against a count of every nanosecond.
TEST(StreamTimes, AgreesWithCountingEveryNanosecond) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    struct Work {
      uint32_t stream;
      uint64_t start, end;
    };
    std::vector<Work> works;
    std::vector<std::vector<int>> busy(3, std::vector<int>(2000));
    for (int i = 0; i < 40; ++i) {
      const uint32_t stream = random() % 3;
      const uint64_t start = random() % 1900, end = start + 1 + random() % 90;
      works.push_back({stream, start, end});
      for (uint64_t n = start; n < end; ++n) busy[stream][n] = 1;
    }
    StreamTimes t;
    for (const Work& w : works) t.add({0, w.stream}, w.start, w.end, false);
    t.finish(0, 2000);
    uint64_t any = 0, several = 0;
    for (size_t n = 0; n < 2000; ++n) {
      const int at_once = busy[0][n] + busy[1][n] + busy[2][n];
      any += at_once > 0;
      several += at_once > 1;
    }
    EXPECT_EQ(t.devices.at(0).any_ns, any);
    EXPECT_EQ(t.devices.at(0).several_ns, several);
    for (const auto& [key, strip] : t.streams)
      EXPECT_EQ(strip.busy_ns,
                static_cast<uint64_t>(std::count(busy[key.second].begin(), busy[key.second].end(), 1)));
  }
}

}  // namespace
}  // namespace shunt::tool
