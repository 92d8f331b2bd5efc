// ZDT and DTLZ against published and true-front values. Figures beside pagmo2 are scripts/bench placement's.
#include <gtest/gtest.h>

#include "runtime/plan/hypervolume.h"
#include "runtime/plan/non_dominated_sort.h"
#include "runtime/plan/random.h"
#include "tests/plan/test_functions.h"

namespace shunt::plan {
namespace {

class Zdt : public ::testing::TestWithParam<testing::ZdtCase> {};

TEST_P(Zdt, ConvergesAtLeastAsWellAsDeb2002) {
  const auto& c = GetParam();
  double distance = 0, hv = 0;
  const int runs = 10;
  for (int run = 0; run < runs; ++run) {
    Nsga2Options options;
    options.seed = 100 + static_cast<uint64_t>(run);
    const Nsga2Result result = nsga2(testing::zdt_problem(c.number), options);
    std::vector<double> points;
    for (const auto& m : result.front) points.insert(points.end(), m.objectives.begin(), m.objectives.end());
    distance += testing::mean_distance(points, testing::zdt_front(c.number, 1000)) / runs;
    const double reference[2] = {1.1, 1.1};
    hv += hypervolume_2d(points, reference) / runs;
    EXPECT_LE(result.front.size(), 100u);
  }
  // What 100 points can reach at most: the best subset of a dense true front.
  const auto dense = testing::zdt_front(c.number, 20000);
  std::vector<double> best;
  for (uint32_t i : best_subset_2d(dense, 100))
    best.push_back(dense[2 * i]), best.push_back(dense[2 * i + 1]);
  const double reference[2] = {1.1, 1.1};
  EXPECT_LE(distance, c.deb_convergence);
  EXPECT_GE(hv, c.hv_share * hypervolume_2d(best, reference)) << "ZDT" << c.number;
  RecordProperty("convergence", std::to_string(distance));
  RecordProperty("hv_pct_of_best_100", std::to_string(100 * hv / hypervolume_2d(best, reference)));
  std::printf("ZDT%d convergence %.6f (Deb %.6f), hypervolume %.3f %% of the best 100 points\n", c.number,
              distance, c.deb_convergence, 100 * hv / hypervolume_2d(best, reference));
}
// Published mean convergence: Deb et al. 2002, real-coded NSGA-II, 100 x 250.
INSTANTIATE_TEST_SUITE_P(All, Zdt,
                         ::testing::Values(testing::ZdtCase{1, 0.033482, 0.995},
                                           testing::ZdtCase{2, 0.072391, 0.995},
                                           testing::ZdtCase{3, 0.114500, 0.995},
                                           testing::ZdtCase{4, 0.513053, 0.995},
                                           testing::ZdtCase{6, 0.296564, 0.995}));

TEST(Hypervolume, TrueFronts) {
  const double r[2] = {1.1, 1.1};
  EXPECT_NEAR(hypervolume_2d(testing::zdt_front(1, 200000), r), 0.87667, 2e-5);
  EXPECT_NEAR(hypervolume_2d(testing::zdt_front(2, 200000), r), 0.54333, 2e-5);
  EXPECT_NEAR(hypervolume_2d(testing::zdt_front(3, 200000), r), 1.33176, 3e-5);
}

double brute_force(const std::vector<double>& points, const double* r) {  // inclusion-exclusion over subsets
  const size_t n = points.size() / 3;
  double total = 0;
  for (uint32_t set = 1; set < (1u << n); ++set) {
    double corner[3] = {0, 0, 0};
    int bits = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!(set >> i & 1)) continue;
      ++bits;
      for (size_t k = 0; k < 3; ++k) corner[k] = std::max(corner[k], points[3 * i + k]);
    }
    double volume = 1;
    for (size_t k = 0; k < 3; ++k) volume *= std::max(0.0, r[k] - corner[k]);
    total += (bits & 1 ? 1 : -1) * volume;
  }
  return total;
}

TEST(Hypervolume, ThreeObjectivesEqualInclusionExclusion) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    std::vector<double> points(3 * (1 + random.below(9)));
    for (double& v : points) v = random.below(6) / 5.0;  // ties on purpose
    const double r[3] = {1.1, 1.1, 0.9};
    EXPECT_NEAR(hypervolume_3d(points, r), brute_force(points, r), 1e-12) << seed;
  }
}

TEST(NonDominatedSort, AgreesWithPeeling) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const size_t m = 2 + seed % 3, n = 1 + random.below(60);
    std::vector<double> values(n * m), violation(n);
    for (double& v : values) v = random.below(7);
    for (double& v : violation) v = random.below(4) == 0 ? random.below(3) : 0;
    Points points{values.data(), n, m, violation.data()};
    const auto fronts = non_dominated_fronts(points);
    std::vector<int> rank(n, -1);
    for (size_t f = 0; f < fronts.size(); ++f) {
      for (uint32_t i : fronts[f]) rank[i] = static_cast<int>(f);
    }
    auto better = [&](uint32_t a, uint32_t b) {
      if (violation[a] != violation[b]) return violation[a] < violation[b];
      return violation[a] == 0 && dominates(points.at(a), points.at(b), m);
    };
    std::vector<char> gone(n, 0);
    int level = 0;
    for (size_t left = n; left > 0; ++level) {
      std::vector<uint32_t> now;
      for (uint32_t i = 0; i < n; ++i) {
        if (gone[i]) continue;
        bool beaten = false;
        for (uint32_t j = 0; j < n; ++j) beaten |= !gone[j] && better(j, i);
        if (!beaten) now.push_back(i);
      }
      for (uint32_t i : now) {
        gone[i] = 1;
        --left;
        EXPECT_EQ(rank[i], level) << "seed " << seed;
      }
    }
  }
}
}  // namespace
}  // namespace shunt::plan
