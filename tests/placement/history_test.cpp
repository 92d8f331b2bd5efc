// History of earlier runs: snapshot round trip, damage at any byte, predictions, and what placement does with
// them.
#include "runtime/placement/history.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/placement/boxes.h"

namespace shunt::placement {
namespace {

const profiles::Profile& profile(const char* key) { return *profiles::find(key); }

KernelRecord record(uint64_t kernel, uint32_t blocks, const char* device, double seconds, int samples) {
  KernelRecord r{{kernel, blocks, 256}, &profile(device), {}};
  for (int i = 0; i < samples; i++) r.samples.add(seconds);
  return r;
}

struct File {
  std::string path = "/tmp/shunt-history-" + std::to_string(getpid()) + ".snap";
  ~File() { unlink(path.c_str()); }
  std::string text() const {
    std::ifstream in(path, std::ios::binary);
    std::stringstream s;
    s << in.rdbuf();
    return s.str();
  }
  void write(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }
};

const std::vector<KernelRecord> kKernels = {record(1, 4096, "b200", 1e-3, 6), record(2, 8, "rubin", 2e-5, 9)};
const std::vector<ProgramRecord> kPrograms = {
    {42, 3, 200ull << 30, {{{1, 4096, 256}, 10}, {{2, 8, 256}, 2.5}}}, {43, 1, 5, {}}};

TEST(Snapshot, RoundTrip) {
  File file;
  std::string error;
  ASSERT_TRUE(write_snapshot(file.path, kKernels, kPrograms, error)) << error;
  History h;
  ASSERT_TRUE(read_snapshot(file.path, h, error)) << error;
  ASSERT_NE(h.find(42), nullptr);
  EXPECT_EQ(h.find(42)->peak_bytes, 200ull << 30);
  EXPECT_EQ(h.find(42)->runs, 3u);
  ASSERT_EQ(h.find(42)->kernels.size(), 2u);
  EXPECT_EQ(h.find(42)->kernels[1].count, 2.5);
  EXPECT_EQ(h.find(44), nullptr);
  EXPECT_EQ(h.costs.estimate({1, 4096, 256}, profile("b200")).source, Source::measured);
}

TEST(Snapshot, AnyDamageIsRefusedAndChangesNothing) {
  File file;
  std::string error;
  ASSERT_TRUE(write_snapshot(file.path, kKernels, kPrograms, error));
  const std::string good = file.text();
  History h;
  h.add({7, 1, 1, {}});
  for (size_t i = 0; i < good.size(); i++) {
    if (i >= 28 && i < 32) continue;  // padding
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    file.write(bad);
    error.clear();
    EXPECT_FALSE(read_snapshot(file.path, h, error)) << "byte " << i;
    EXPECT_FALSE(error.empty());
    file.write(good.substr(0, i));
    EXPECT_FALSE(read_snapshot(file.path, h, error)) << "cut at " << i;
  }
  EXPECT_NE(h.find(7), nullptr);
  EXPECT_FALSE(read_snapshot("/nonexistent", h, error));
  EXPECT_FALSE(read_snapshot("/tmp", h, error));
}

TEST(History, PredictionIsTheSumAndItsWeakestSource) {
  History h;
  for (const auto& k : kKernels) h.costs.add(k);
  const Estimate mixed = h.predict(kPrograms[0], profile("b200"));
  EXPECT_EQ(mixed.source, Source::scaled);  // kernel 2 was seen on Rubin only
  EXPECT_GT(mixed.sigma, 0);
  EXPECT_EQ(h.predict(kPrograms[1], profile("b200")).source, Source::none) << "no kernels: no time";
  const ProgramRecord only{9, 1, 0, {{{1, 4096, 256}, 4}}};
  const Estimate e = h.predict(only, profile("b200"));
  EXPECT_EQ(e.source, Source::measured);
  EXPECT_NEAR(e.seconds, 4e-3, 1e-12);
  const ProgramRecord unknown{9, 1, 0, {{{1, 4096, 256}, 4}, {{77, 1, 1}, 1}}};
  EXPECT_EQ(h.predict(unknown, profile("b200")).source, Source::none);
}

TEST(History, ProgramIsFileAndArguments) {
  EXPECT_NE(program_id("/a", {"a", "x"}), program_id("/a", {"a", "y"}));
  EXPECT_NE(program_id("/a", {"a", "x"}), program_id("/b", {"a", "x"}));
  EXPECT_EQ(program_id("/a", {"a", "x"}), program_id("/a", {"./a", "x"})) << "however it was called";
  EXPECT_NE(program_id("/a", {"a", "xy", "z"}), program_id("/a", {"a", "x", "yz"}));
}

TEST(Decide, NeedFromHistoryWhereNoHintSaysIt) {
  Request r = with({});
  r.history_need_bytes = 200ull << 30;
  Plan plan = decide(r, mixed_box());
  EXPECT_EQ(plan.device, 2);
  EXPECT_TRUE(plan.need_from_history);
  EXPECT_NE(plan.why.find("(history)"), std::string::npos) << plan.why;
  r = with({"mem=10GiB"});
  r.history_need_bytes = 200ull << 30;
  plan = decide(r, mixed_box());
  EXPECT_EQ(plan.device, 0) << "a hint is stronger";
  EXPECT_FALSE(plan.need_from_history);
}

TEST(Decide, MixedFollowsPredictedTimesWhenTheyAreSure) {
  const std::vector<DeviceFacts> box = mixed_box();
  Request r = with({}, Mode::mixed);
  auto predict = [&](double b200, double rubin, double sigma) {
    r.predictions.clear();
    for (const DeviceFacts& d : box)
      r.predictions.push_back({d.ordinal < 2 ? b200 : rubin, sigma, Source::measured, 9, nullptr, 'C'});
    return decide(r, box);
  };
  EXPECT_EQ(predict(1.0, 0.5, 0.05).device, 2);
  EXPECT_NE(predict(1.0, 0.5, 0.05).why.find("predicted 2.00x faster"), std::string::npos);
  EXPECT_EQ(predict(1.0, 0.9, 0.05).device, 0) << "gain within twice its uncertainty";
  EXPECT_EQ(predict(0.5, 1.0, 0.01).device, 0) << "slower there, whatever the rate says";
  r.predictions[3].source = Source::none;
  EXPECT_EQ(decide(r, box).device, 2) << "incomplete: the profile's rate decides";
  r.mode = Mode::on;
  predict(1.0, 0.1, 0.0);
  EXPECT_EQ(decide(r, box).device, 0) << "another model only when mixed";
}

}  // namespace
}  // namespace shunt::placement
