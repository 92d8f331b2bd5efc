#include <gtest/gtest.h>

#include "runtime/plan/schedule.h"
#include "tests/plan/graphs.h"

namespace shunt::plan {
namespace {
using testing::arabnejad;
using testing::random_problem;
using testing::topcuoglu;

Problem ready(Problem p) {
  std::string error;
  EXPECT_TRUE(p.validate(error)) << error;
  return p;
}

TEST(Published, TopcuogluGraph) {
  const Problem p = ready(topcuoglu());
  EXPECT_DOUBLE_EQ(heft(p).makespan, 80);
  const Schedule best = exhaustive(p, 50'000'000);
  EXPECT_TRUE(best.proven_optimal);
  EXPECT_DOUBLE_EQ(best.makespan, 73);
}

TEST(Published, PeftGraph) {
  const Problem p = ready(arabnejad());
  EXPECT_DOUBLE_EQ(heft(p).makespan, 133);
  EXPECT_DOUBLE_EQ(peft(p).makespan, 122);
  const Schedule best = exhaustive(p, 50'000'000);
  EXPECT_TRUE(best.proven_optimal);
  EXPECT_DOUBLE_EQ(best.makespan, 113);
}

TEST(Random, EveryScheduleIsValidAndAboveTheBounds) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Problem p = ready(random_problem(seed, 3 + seed % 28, 1 + seed % 5));
    const double bound = std::max(critical_path_bound(p), assignment_bound(p));
    for (const Schedule& s :
         {heft(p), peft(p), lookahead(p), best_single_device(p), round_robin(p), best_of(p)}) {
      std::string error;
      EXPECT_TRUE(is_valid(p, s, error)) << s.algorithm << " seed " << seed << ": " << error;
      EXPECT_GE(s.makespan, bound * (1 - 1e-9)) << s.algorithm << " seed " << seed;
    }
  }
}

// The optimum by a search that shares nothing with the branch and bound: all orders, all devices.
void enumerate(const Problem& p, Timeline& timeline, std::vector<double>& available, size_t placed,
               double& best) {
  if (placed == p.task_count()) {
    best = std::min(best, timeline.finish("").makespan);
    return;
  }
  for (TaskId t = 0; t < p.task_count(); ++t) {
    if (timeline.placed(t)) continue;
    bool ok = true;
    for (uint32_t e : p.predecessors[t]) ok &= timeline.placed(p.edges[e].from);
    if (!ok) continue;
    for (DeviceId d = 0; d < p.device_count(); ++d) {
      timeline.place(t, timeline.earliest(t, d));
      enumerate(p, timeline, available, placed + 1, best);
      timeline.remove(t);
    }
  }
}

TEST(Random, ExhaustiveFindsTheOptimum) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    const Problem p = ready(random_problem(seed, 5, 1 + seed % 3));
    Timeline timeline(p);
    std::vector<double> available(p.device_count());
    double best = kCannotRun;
    enumerate(p, timeline, available, 0, best);
    const Schedule found = exhaustive(p, 10'000'000);
    std::string error;
    EXPECT_TRUE(found.proven_optimal);
    EXPECT_TRUE(is_valid(p, found, error)) << error;
    EXPECT_NEAR(found.makespan, best, 1e-9) << "seed " << seed;
  }
}

TEST(Exhaustive, SaysWhenItGaveUp) {
  const Problem p = ready(random_problem(7, 30, 4));
  const Schedule s = exhaustive(p, 100);
  EXPECT_FALSE(s.proven_optimal);
  EXPECT_GT(s.lower_bound, 0);
  EXPECT_LE(s.lower_bound, s.makespan);
}
}  // namespace
}  // namespace shunt::plan
