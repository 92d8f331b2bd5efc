// run.json of a trace directory: what was started, how, on what. Start-up only.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/placement/decide.h"

namespace shunt::tool {

void write_run_record(const std::string& folder, const std::vector<std::string>& arguments,
                      const config::Config& config, const std::vector<placement::DeviceFacts>& devices,
                      const placement::Plan& plan);

}  // namespace shunt::tool
