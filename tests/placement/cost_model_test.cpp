// Cost model: each source, its variance, what wins, and when a move is worth it.
#include "runtime/placement/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <numeric>

namespace shunt::placement {
namespace {

const profiles::Profile& profile(const char* key) { return *profiles::find(key); }

KernelShape shape(uint32_t blocks, uint32_t threads = 256, const char* name = "k") {
  return {kernel_id(name, 7), blocks, threads};
}
KernelRecord record(const KernelShape& s, const char* device, std::vector<double> seconds) {
  KernelRecord r{s, &profile(device), {}};
  for (const double t : seconds) r.samples.add(t);
  return r;
}

TEST(CostModel, MeasuredNeedsFive) {
  CostModel model;
  model.add(record(shape(1000), "b200", {1e-3, 1.2e-3, 0.8e-3, 1e-3}));
  Estimate e = model.estimate(shape(1000), profile("b200"));
  EXPECT_EQ(e.source, Source::few);
  EXPECT_GE(e.sigma, 0.25e-3);
  model.add(record(shape(1000), "b200", {1e-3}));
  e = model.estimate(shape(1000), profile("b200"));
  EXPECT_EQ(e.source, Source::measured);
  EXPECT_EQ(e.samples, 5u);
  EXPECT_NEAR(e.seconds, 1e-3, 1e-12);
  EXPECT_NEAR(e.sigma, std::sqrt(0.08 / 4) * 1e-3, 1e-9);
  EXPECT_EQ(model.estimate(shape(1100), profile("b200")).source, Source::measured) << "same bucket";
  EXPECT_EQ(model.estimate(shape(1000, 256, "other"), profile("b200")).source, Source::none);
}

TEST(CostModel, MergedSamplesAreTheSamplesTogether) {
  rc::check("merge", [](std::vector<uint16_t> a, std::vector<uint16_t> b) {
    Samples x, y, all;
    for (auto v : a) x.add(v + 1.0), all.add(v + 1.0);
    for (auto v : b) y.add(v + 1.0), all.add(v + 1.0);
    x.merge(y);
    RC_ASSERT(x.count == all.count);
    RC_ASSERT(std::abs(x.mean - all.mean) <= 1e-9 * (1 + all.mean));
    RC_ASSERT(std::abs(x.m2 - all.m2) <= 1e-6 * (1 + all.m2));
  });
}

TEST(CostModel, RegressionThroughSizes) {
  CostModel model;
  for (const uint32_t blocks : {1024u, 4096u, 16384u})
    model.add(record(shape(blocks), "rubin", std::vector<double>(6, blocks * 1e-7)));
  const Estimate inside = model.estimate(shape(8192), profile("rubin"));
  EXPECT_EQ(inside.source, Source::regression);
  EXPECT_NEAR(inside.seconds, 8192e-7, 8192e-7 * 0.01);
  const Estimate far = model.estimate(shape(1 << 20), profile("rubin"));
  EXPECT_NEAR(far.seconds, (1 << 20) * 1e-7, (1 << 20) * 1e-7 * 0.02);
  EXPECT_GT(far.sigma / far.seconds, inside.sigma / inside.seconds) << "extrapolation is less sure";
  CostModel one;
  one.add(record(shape(1024), "rubin", std::vector<double>(6, 1e-4)));
  const Estimate guess = one.estimate(shape(4096), profile("rubin"));
  EXPECT_GT(guess.sigma / guess.seconds, 0.5) << "one size says nothing of the slope";
  // Truth between constant and linear is within two sigma.
  EXPECT_LT(std::abs(guess.seconds - 1e-4), 2 * guess.sigma);
  EXPECT_LT(std::abs(guess.seconds - 4e-4), 2 * guess.sigma);
}

TEST(CostModel, ScaledLiesBetweenTheRooflines) {
  CostModel model;
  const KernelShape big = shape(1 << 20);
  model.add(record(big, "b200", std::vector<double>(8, 1e-3)));
  const Estimate e = model.estimate(big, profile("rubin"));
  EXPECT_EQ(e.source, Source::scaled);
  EXPECT_EQ(e.from, &profile("b200"));
  const ScaleRange r = scale_range(big, profile("b200"), profile("rubin"));
  const double low = std::min(r.memory, r.compute) * 1e-3, high = std::max(r.memory, r.compute) * 1e-3;
  EXPECT_GE(e.seconds, low);
  EXPECT_LE(e.seconds, high);
  EXPECT_LE(e.seconds - 2 * e.sigma, low);
  EXPECT_GE(e.seconds + 2 * e.sigma, high);
  EXPECT_NEAR(r.memory, profile("b200").memory_bandwidth.value / profile("rubin").memory_bandwidth.value,
              0.02);
  EXPECT_NE(e.mark, 'C') << "Rubin's rates are announced, not measured";
  // A grid of one block gains nothing from more SMs.
  const ScaleRange one = scale_range(shape(1), profile("b200"), profile("rubin"));
  EXPECT_GT(one.compute, r.compute);
  // Measured there beats scaled from elsewhere.
  model.add(record(big, "rubin", std::vector<double>(5, 3e-4)));
  EXPECT_EQ(model.estimate(big, profile("rubin")).source, Source::measured);
}

TEST(CostModel, BadRecordsChangeNothing) {
  CostModel model;
  model.add({shape(1), nullptr, {5, 1, 0}});
  model.add({shape(1), &profile("b200"), {0, 1, 0}});
  model.add({shape(1), &profile("b200"), {5, NAN, 0}});
  model.add({shape(1), &profile("b200"), {5, -1, 0}});
  model.add({shape(1), &profile("b200"), {5, 1, -1}});
  EXPECT_EQ(model.size(), 0u);
}

TEST(CostModel, EstimatesAreAlwaysUsable) {
  rc::check("finite, positive, sigma >= 0", [] {
    CostModel model;
    const int n = *rc::gen::inRange(1, 12);
    for (int i = 0; i < n; i++) {
      const auto blocks = static_cast<uint32_t>(*rc::gen::inRange(1, 1 << 20));
      const char* device = *rc::gen::element("b200", "rubin", "h100");
      std::vector<double> seconds;
      for (int k = *rc::gen::inRange(1, 8); k > 0; k--) seconds.push_back(*rc::gen::inRange(1, 1000) * 1e-6);
      model.add(record(shape(blocks), device, seconds));
    }
    for (const profiles::Profile& p : profiles::all()) {
      const Estimate e = model.estimate(shape(static_cast<uint32_t>(*rc::gen::inRange(1, 1 << 22))), p);
      RC_ASSERT(e.source != Source::none);
      RC_ASSERT(std::isfinite(e.seconds) && e.seconds > 0);
      RC_ASSERT(std::isfinite(e.sigma) && e.sigma >= 0);
    }
  });
}

TEST(Hysteresis, GainMustExceedDoubtAndCost) {
  Hysteresis h;
  EXPECT_TRUE(h.worth_it(1.0, 0.3, 0.3, 0));
  EXPECT_FALSE(h.worth_it(1.0, 0.4, 0.3, 0));
  EXPECT_FALSE(h.worth_it(1.0, 0.3, 0.5, 0));
  EXPECT_FALSE(h.worth_it(NAN, 0, 0, 0));
  h.moved(5);
  EXPECT_FALSE(h.worth_it(9, 0, 0, 5 + Hysteresis::kRest_ns - 1));
  EXPECT_TRUE(h.worth_it(9, 0, 0, 5 + Hysteresis::kRest_ns));
}

}  // namespace
}  // namespace shunt::placement
