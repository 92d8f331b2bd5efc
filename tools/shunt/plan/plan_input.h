// Reads task graphs for `shunt plan`: shunt's own JSON, WfCommons (WfFormat 1.4/1.5) JSON, Standard Task
// Graph text, and what `shunt run --record-dag` wrote, told apart by content. Sizes in bytes, times in
// seconds. Called once by the tool; never throws.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/task_graph.h"
#include "tools/simgpu/box/box.h"

namespace shunt::tool {

// A task before it meets devices: either work (flops in a number format, bytes moved) or seconds measured on
// a reference.
struct PlanTask {
  std::string name;
  double flops = 0, bytes = 0, memory_bytes = 0;
  std::string format = "fp32";            // fp64 fp32 tf32 bf16 fp16 fp8 fp4
  double reference_seconds = -1;          // >= 0: measured on the reference device
  std::map<std::string, double> seconds;  // by profile key; wins over everything else
  // Recorded tasks only (recorded_run.h).
  std::string kind, measured_on;  // "kernel", ...; profile key of reference_seconds
  uint32_t blocks = 0, block_threads = 0;
  bool measured = false;
};

struct PlanInput {
  enum class Kind { shunt, wfcommons, stg, recorded } kind = Kind::shunt;
  std::vector<PlanTask> tasks;
  std::vector<plan::Edge> edges;
};

bool read_plan_text(const std::string& text, PlanInput& input, std::string& error);
bool read_plan_file(const std::string& path, PlanInput& input, std::string& error);

// Meets tasks and a box: seconds per (task, device), link times, power. `reference` is the profile key that
// reference_seconds were measured on; other devices are scaled by the ratio of memory bandwidths, as
// workflows are data-bound.
bool make_problem(const PlanInput& input, const simgpu::BoxSpec& box, const std::string& reference,
                  plan::Problem& problem, std::string& error);

// Predicted time of the work on a profile: the roofline with the profile's efficiencies, plus one launch.
double roofline_seconds(const profiles::Profile& profile, const PlanTask& task, std::string& error);

}  // namespace shunt::tool
