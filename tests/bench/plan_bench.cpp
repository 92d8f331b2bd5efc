// Planner rows of the placement bench: 24 mixed jobs on four B200 and four Rubin, and the 2-D fronts of
// NSGA-II.
#include <cmath>

#include "runtime/plan/hypervolume.h"
#include "runtime/plan/policy_search.h"
#include "runtime/plan/random.h"
#include "tests/bench/bench_rows.h"
#include "tests/plan/test_functions.h"
#include "tools/shunt/plan/plan_input.h"

using namespace shunt;

namespace {

// Training, long-context inference and segmentation, eight of each, of three sizes; some inference jobs fit
// Rubin only.
tool::PlanInput mixed_batch(uint64_t seed) {
  plan::Random random(seed);
  tool::PlanInput input;
  for (int i = 0; i < 24; ++i) {
    tool::PlanTask task;
    const double size = 1 + random.below(3) + random.uniform();
    task.name = std::string(i % 3 == 0 ? "train" : i % 3 == 1 ? "infer" : "segment") + std::to_string(i);
    task.format = i % 3 == 0 ? "bf16" : i % 3 == 1 ? "fp8" : "tf32";
    task.flops = size * (i % 3 == 0 ? 3e18 : i % 3 == 1 ? 2e17 : 1e18);
    task.bytes = size * (i % 3 == 0 ? 1e15 : i % 3 == 1 ? 1.2e16 : 2e15);
    task.memory_bytes = i % 3 == 1 ? 60e9 + 70e9 * random.below(3) : 20e9 * size;
    input.tasks.push_back(task);
  }
  return input;
}

plan::Problem problem_of(uint64_t seed) {
  simgpu::BoxSpec box;
  plan::Problem problem;
  std::string error;
  if (!simgpu::parse_box_spec("b200:4,rubin:4", "nvlink5", box, error) ||
      !tool::make_problem(mixed_batch(seed), box, "b200", problem, error)) {
    fprintf(stderr, "%s\n", error.c_str());
    exit(1);
  }
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Rows rows(argc, argv);
  std::vector<double> over_bound, over_round_robin, over_fastest;
  for (int run = 0; run < rows.runs(); ++run) {
    const plan::Problem p = problem_of(1 + static_cast<uint64_t>(run));
    const double bound = std::max(plan::critical_path_bound(p), plan::assignment_bound(p));
    plan::PolicyOptions options;
    options.time_limit_s = 0.2;
    const auto front = plan::search_policies(p, options);
    const double mine = front.points.front().schedule.makespan;
    over_bound.push_back(mine / bound);
    over_round_robin.push_back(plan::round_robin(p).makespan / mine);
    const auto single = plan::best_single_device(p);
    if (std::isfinite(single.makespan)) over_fastest.push_back(single.makespan / mine);
  }
  rows.emit({"plan_batch_over_bound", "x", "Lagrangian lower bound of the assignment", 1.05, "lower"},
            over_bound);
  rows.emit({"plan_batch_vs_round_robin", "x", "round-robin", 1.3, "higher"}, over_round_robin);
  rows.emit({"plan_batch_vs_single_fastest", "x", "all on the one fastest device", {}, "higher"},
            over_fastest);

  for (int number : {1, 2, 3, 4, 6}) {
    const auto dense = plan::testing::zdt_front(number, 20000);
    std::vector<double> best;
    for (uint32_t i : plan::best_subset_2d(dense, 100))
      best.push_back(dense[2 * i]), best.push_back(dense[2 * i + 1]);
    const double reference[2] = {1.1, 1.1};
    const double reachable = plan::hypervolume_2d(best, reference);
    std::vector<double> share;
    for (int run = 0; run < rows.runs(); ++run) {
      plan::Nsga2Options options;
      options.seed = static_cast<uint64_t>(run) + 1;
      std::vector<double> points;
      for (const auto& m : plan::nsga2(plan::testing::zdt_problem(number), options).front)
        points.insert(points.end(), m.objectives.begin(), m.objectives.end());
      share.push_back(100 * plan::hypervolume_2d(points, reference) / reachable);
    }
    rows.emit({number == 1 ? "nsga2_hv_pct" : "nsga2_hv_pct_zdt" + std::to_string(number), "%",
               "best 100 points of the true front", 99.5, "higher"},
              share);
  }
  return rows.finish();
}
