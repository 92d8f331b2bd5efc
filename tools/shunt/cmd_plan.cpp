// shunt plan FILE: what a task graph would take on a box, by algorithm, with the Pareto front.
#include <CLI/CLI.hpp>

#include "tools/shunt/console.h"
#include "tools/shunt/plan/plan_command.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {

namespace {

int run_plan(const std::vector<std::string>& arguments) {
  PlanArguments a;
  CLI::App app{
      "Schedules a task graph (shunt's JSON, WfCommons JSON or Standard Task Graph text) on a box of "
      "devices."};
  app.name("shunt plan");
  app.footer(
      "Examples:\n"
      "  shunt plan graph.json --devices b200:4,rubin:4\n"
      "  shunt plan workflow.json --devices b200:8 --what-if rubin:72 --links nvlink6\n"
      "  shunt plan graph.stg --devices b200:2 --gantt gantt.svg --pareto front.svg");
  app.add_option("FILE", a.file, "the task graph")->required();
  app.add_option("--devices", a.devices, "the box, as for --sim: model[:count][@key=value],...")
      ->capture_default_str();
  app.add_option("--links", a.links, "nvlink5|nvlink6|pcie5|pcie6|none|FILE.toml")->capture_default_str();
  app.add_option("--what-if", a.what_if, "a second box to compare with");
  app.add_option("--reference", a.reference, "the device that measured task times belong to")
      ->capture_default_str();
  app.add_option("--gantt", a.gantt_svg, "write the best schedule as SVG");
  app.add_option("--pareto", a.pareto_svg, "write the front as SVG");
  app.add_option("--seed", a.seed, "seed of the search")->capture_default_str();
  app.add_option("--time-limit", a.time_limit_s, "seconds for NSGA-II")->capture_default_str();
  app.add_flag("--json", a.json, "one JSON object on stdout");
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& e) {
    return fail(2, std::string("plan: ") + e.what() + " (see shunt plan --help)");
  }
  return plan_command(a);
}

}  // namespace

SHUNT_VERB("plan", 60, "schedule a task graph on a box and show the trade-offs", run_plan)

}  // namespace shunt::tool
