// The scheduler core of the planner: NSGA-II over (device, power step, order) per task with the objectives
// makespan, energy and 1 - least memory headroom, seeded by the list heuristics. Deterministic for a seed
// unless the time box ends it.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/nsga2.h"
#include "runtime/plan/schedule.h"

namespace shunt::plan {

struct PolicyPoint {
  Schedule schedule;
  double energy_j = 0, memory_pressure = 0;  // memory_pressure = 1 - least headroom, 0..1
};

struct PolicyFront {
  std::vector<PolicyPoint> points;  // non-dominated, by makespan
  size_t knee = 0;
  PolicyPoint baseline;  // HEFT at full power
  uint64_t evaluations = 0;
};

struct PolicyOptions {
  uint64_t seed = 1;
  uint32_t population = 100, generations = 250;
  double time_limit_s = 0.2;
};

PolicyFront search_policies(const Problem& problem, const PolicyOptions& options);
PolicyPoint judge(const Problem& problem, Schedule schedule);

}  // namespace shunt::plan
