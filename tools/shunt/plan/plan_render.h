// Gantt charts and Pareto fronts of `shunt plan`, as SVG (offline, light and dark, readable without colour)
// and as text.
#pragma once
#include <string>

#include "runtime/plan/policy_search.h"

namespace shunt::tool {

std::string gantt_svg(const plan::Problem& problem, const plan::Schedule& schedule);
std::string pareto_svg(const plan::PolicyFront& front);
std::string gantt_text(const plan::Problem& problem, const plan::Schedule& schedule, int columns);
std::string seconds_text(double seconds);  // "1.25 s", "3.4 ms", "870 us"

}  // namespace shunt::tool
