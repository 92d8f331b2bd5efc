// shunt.toml: keys are option names; tables are joined with "-" ([trace] max = "1GiB" is trace-max); a table
// or array named `hint` gives several hints. One thread; reports instead of throwing.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace shunt::tool {

// False when the file does not exist (that is a problem only for --config).
bool load_toml(const std::string& path, config::Origin origin, config::Config& config,
               std::vector<config::Problem>& problems);

}  // namespace shunt::tool
