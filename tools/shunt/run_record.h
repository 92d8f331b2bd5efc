// run.json of a trace directory: what was started, how, on what. Start-up only.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/placement/decide.h"

namespace shunt::tool {

// What the placement was decided from, for `shunt explain`.
struct DecisionInputs {
  const placement::Request& request;
  const placement::RuleSet& rules;
  std::string rules_origin;
  bool simulated;
};

void write_run_record(const std::string& folder, const std::vector<std::string>& arguments,
                      const config::Config& config, const std::vector<placement::DeviceFacts>& devices,
                      const placement::Plan& plan, const DecisionInputs& inputs);

}  // namespace shunt::tool
