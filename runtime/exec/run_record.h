// run.json of a trace directory when no `shunt run` has written one (bare preload). Start-up only.
#pragma once
#include <string>

#include "runtime/config/config.h"

namespace shunt::exec {

void write_run_record(const std::string& directory, const config::Config& config);

}  // namespace shunt::exec
