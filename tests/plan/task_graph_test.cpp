#include <gtest/gtest.h>

#include "runtime/plan/policy_search.h"
#include "tests/plan/graphs.h"

namespace shunt::plan {
namespace {
using testing::from_tables;

std::string reason(Problem p) {
  std::string error;
  EXPECT_FALSE(p.validate(error));
  return error;
}

TEST(Validate, NamesTheCycle) {
  EXPECT_EQ(reason(from_tables({{1}, {1}, {1}}, {{0, 1, 0}, {1, 2, 0}, {2, 1, 0}})),
            "the task graph has a cycle: 't1' -> 't2' -> 't1'");
  EXPECT_EQ(reason(from_tables({{1}}, {{0, 0, 0}})), "the task graph has a cycle: 't0' -> 't0'");
}

TEST(Validate, RefusesWhatMakesNoSense) {
  EXPECT_NE(reason(from_tables({{1}}, {{0, 5, 0}})).find("names a task that does not exist"),
            std::string::npos);
  EXPECT_NE(reason(from_tables({{1}, {1}}, {{0, 1, -4}})).find("bad size"), std::string::npos);
  EXPECT_NE(reason(from_tables({{-1}}, {})).find("times are >= 0"), std::string::npos);
  Problem empty;
  EXPECT_NE(reason(empty).find("no tasks"), std::string::npos);
  Problem none = from_tables({{1}}, {});
  none.devices.clear();
  EXPECT_NE(reason(none).find("device set is empty"), std::string::npos);
  Problem large = from_tables({{1, 1}}, {});
  large.tasks[0].memory_bytes = 400e9;
  large.devices[0].memory_bytes = large.devices[1].memory_bytes = 192e9;
  EXPECT_EQ(reason(large), "task 't0' fits no device (needs 400.000000 GB): add a larger device or split it");
}

TEST(PolicySearch, FrontIsFeasibleNonDominatedAndCoversHeft) {
  Problem p = testing::random_problem(11, 24, 4);
  for (DeviceId d = 0; d < 4; ++d) {
    p.devices[d].memory_bytes = d < 2 ? 180e9 : 288e9;
    p.devices[d].busy_w = d < 2 ? 1000 : 2100;
    p.devices[d].idle_w = 150;
    p.devices[d].power_steps = {{1, 1}, {0.8, 0.93}};
  }
  for (TaskId t = 0; t < 24; t += 6) p.tasks[t].memory_bytes = 200e9;
  std::string error;
  ASSERT_TRUE(p.validate(error)) << error;
  PolicyOptions options;
  options.time_limit_s = 0;
  options.generations = 60;
  const PolicyFront front = search_policies(p, options);
  ASSERT_FALSE(front.points.empty());
  EXPECT_LT(front.knee, front.points.size());
  EXPECT_LE(front.points.front().schedule.makespan, front.baseline.schedule.makespan);
  for (size_t i = 0; i < front.points.size(); ++i) {
    const auto& a = front.points[i];
    for (TaskId t = 0; t < 24; t += 6)
      EXPECT_GE(a.schedule.slots[t].device, 2u) << "200 GB on a 180 GB device";
    for (size_t j = 0; j < front.points.size(); ++j) {
      const auto& b = front.points[j];
      EXPECT_FALSE(i != j && b.schedule.makespan <= a.schedule.makespan && b.energy_j <= a.energy_j &&
                   b.memory_pressure <= a.memory_pressure)
          << i << " " << j;
    }
  }
  const PolicyFront again = search_policies(p, options);
  ASSERT_EQ(again.points.size(), front.points.size());
  for (size_t i = 0; i < front.points.size(); ++i)
    EXPECT_EQ(again.points[i].energy_j, front.points[i].energy_j);
}
}  // namespace
}  // namespace shunt::plan
