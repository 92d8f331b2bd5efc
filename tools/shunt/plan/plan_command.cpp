#include "tools/shunt/plan/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/shunt/plan/plan_input.h"
#include "tools/shunt/plan/plan_render.h"

namespace shunt::tool {

namespace {

struct Outcome {
  plan::Problem problem;
  double bound = 0;
  size_t levels = 0, widest = 0;
  std::vector<plan::Schedule> schedules;  // list algorithms, then exhaustive
  plan::PolicyFront front;
  const plan::Schedule* best = nullptr;
};

void count_levels(const plan::Problem& p, Outcome& o) {
  std::vector<size_t> level(p.task_count(), 0);
  std::vector<size_t> width;
  for (plan::TaskId t : p.topological) {
    for (uint32_t e : p.predecessors[t]) level[t] = std::max(level[t], level[p.edges[e].from] + 1);
    if (width.size() <= level[t]) width.resize(level[t] + 1);
    ++width[level[t]];
  }
  o.levels = width.size();
  o.widest = width.empty() ? 0 : *std::max_element(width.begin(), width.end());
}

bool solve(const PlanArguments& a, const PlanInput& input, const std::string& spec, Outcome& o,
           std::string& error) {
  simgpu::BoxSpec box;
  if (!simgpu::parse_box_spec(spec, a.links, box, error)) return false;
  if (!make_problem(input, box, a.reference, o.problem, error)) return false;
  const plan::Problem& p = o.problem;
  count_levels(p, o);
  o.bound = std::max(plan::critical_path_bound(p), plan::assignment_bound(p));
  for (plan::Schedule s : {plan::round_robin(p), plan::best_single_device(p), plan::heft(p), plan::peft(p),
                           plan::lookahead(p)}) {
    if (std::isfinite(s.makespan)) o.schedules.push_back(std::move(s));
  }
  if (p.task_count() <= 14) {
    o.schedules.push_back(plan::exhaustive(p, a.exact_nodes));
    o.bound = std::max(o.bound, o.schedules.back().lower_bound);
  }
  plan::PolicyOptions options;
  options.seed = a.seed;
  options.time_limit_s = a.time_limit_s;
  o.front = plan::search_policies(p, options);
  o.best = &o.schedules.front();
  for (const auto& s : o.schedules) {
    if (s.makespan < o.best->makespan) o.best = &s;
  }
  if (!o.front.points.empty() && o.front.points.front().schedule.makespan < o.best->makespan)
    o.best = &o.front.points.front().schedule;
  return true;
}

std::string ratio_text(double value, double bound) {
  return bound > 0 ? fmt::format("{:.2f}x", value / bound) : "-";
}

void print_text(const PlanArguments& a, const PlanInput& input, const std::string& spec, const Outcome& o) {
  const plan::Problem& p = o.problem;
  fmt::print("{} on {}\n", a.file, spec);
  if (input.kind == PlanInput::Kind::recorded) {
    const auto measured =
        std::count_if(input.tasks.begin(), input.tasks.end(), [](const PlanTask& t) { return t.measured; });
    fmt::print("recorded on {}: {} of {} tasks measured; other models by waves and the profiles' rates\n",
               input.tasks.front().measured_on, measured, input.tasks.size());
  }
  fmt::print("{} tasks, {} edges, {} levels (widest {}); no schedule can be shorter than {}\n\n",
             p.task_count(), p.edges.size(), o.levels, o.widest, seconds_text(o.bound));
  fmt::print("{:<16}{:>12}{:>12}{:>14}\n", "algorithm", "makespan", "over bound", "energy");
  for (const auto& s : o.schedules) {
    fmt::print("{:<16}{:>12}{:>12}{:>12.4g} J{}\n", s.algorithm, seconds_text(s.makespan),
               ratio_text(s.makespan, o.bound), plan::energy_j(p, s),
               s.proven_optimal ? "  proven optimal" : "");
  }
  fmt::print("\nPareto front (NSGA-II, {} evaluations); the knee is marked *\n", o.front.evaluations);
  fmt::print("  {:>12}{:>16}{:>10}\n", "makespan", "energy", "memory");
  const size_t n = o.front.points.size(), shown = std::min<size_t>(n, 12);
  for (size_t k = 0; k < shown; ++k) {
    const size_t i = shown < 2 ? k : k * (n - 1) / (shown - 1);
    const auto& point = o.front.points[i];
    fmt::print("{} {:>12}{:>14.4g} J{:>8.0f} %\n", i == o.front.knee ? '*' : ' ',
               seconds_text(point.schedule.makespan), point.energy_j, 100 * point.memory_pressure);
  }
  if (n > shown) fmt::print("  ... {} points in all (--json lists them)\n", n);
  fmt::print("\nbest: {}, {}\n{}", o.best->algorithm, seconds_text(o.best->makespan),
             gantt_text(p, *o.best, a.columns));
}

nlohmann::json json_of(const std::string& spec, const Outcome& o) {
  const plan::Problem& p = o.problem;
  nlohmann::json j{{"devices", spec},
                   {"tasks", p.task_count()},
                   {"edges", p.edges.size()},
                   {"levels", o.levels},
                   {"lower_bound_s", o.bound}};
  for (const auto& s : o.schedules) {
    j["algorithms"].push_back({{"name", s.algorithm},
                               {"makespan_s", s.makespan},
                               {"energy_j", plan::energy_j(p, s)},
                               {"proven_optimal", s.proven_optimal}});
  }
  for (size_t i = 0; i < o.front.points.size(); ++i) {
    const auto& point = o.front.points[i];
    j["front"].push_back({{"makespan_s", point.schedule.makespan},
                          {"energy_j", point.energy_j},
                          {"memory", point.memory_pressure},
                          {"knee", i == o.front.knee}});
  }
  j["best"] = {{"algorithm", o.best->algorithm}, {"makespan_s", o.best->makespan}};
  for (plan::TaskId t = 0; t < p.task_count(); ++t) {
    const auto& slot = o.best->slots[t];
    j["best"]["slots"].push_back({{"task", p.tasks[t].name},
                                  {"device", p.devices[slot.device].name},
                                  {"start_s", slot.start},
                                  {"finish_s", slot.finish}});
  }
  return j;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (file && file << text) return true;
  fmt::print(stderr, "[shunt] cannot write '{}': is the folder there and writable?\n", path);
  return false;
}

}  // namespace

int plan_command(const PlanArguments& a) {
  PlanInput input;
  std::string error;
  Outcome now, then;
  if (!read_plan_file(a.file, input, error) || !solve(a, input, a.devices, now, error) ||
      (!a.what_if.empty() && !solve(a, input, a.what_if, then, error))) {
    fmt::print(stderr, "[shunt] plan: {}\n", error);
    return 2;
  }
  if (a.json) {
    nlohmann::json j = json_of(a.devices, now);
    j["schema"] = 1;
    j["file"] = a.file;
    if (!a.what_if.empty()) j["what_if"] = json_of(a.what_if, then);
    fmt::print("{}\n", j.dump(1));
  } else {
    print_text(a, input, a.devices, now);
    if (!a.what_if.empty()) {
      fmt::print("\n-- what if --\n");
      print_text(a, input, a.what_if, then);
      fmt::print("\n{} would take {} instead of {} ({:.2f}x)\n", a.what_if, seconds_text(then.best->makespan),
                 seconds_text(now.best->makespan), now.best->makespan / then.best->makespan);
    }
  }
  bool written = true;
  if (!a.gantt_svg.empty()) written &= write_file(a.gantt_svg, gantt_svg(now.problem, *now.best));
  if (!a.pareto_svg.empty()) written &= write_file(a.pareto_svg, pareto_svg(now.front));
  return written ? 0 : 2;
}

}  // namespace shunt::tool
