// `shunt plan FILE`: reads a task graph, schedules it on a box, prints what each algorithm reaches and the
// front.
#pragma once
#include <cstdint>
#include <string>

namespace shunt::tool {

struct PlanArguments {
  std::string file, devices = "b200:1", links = "nvlink5", what_if, reference = "b200";
  std::string gantt_svg, pareto_svg;  // paths to write; empty: none
  bool json = false;
  uint64_t seed = 1, exact_nodes = 2'000'000;
  double time_limit_s = 0.2;
  int columns = 80;
};

int plan_command(const PlanArguments& arguments);  // exit status

}  // namespace shunt::tool
