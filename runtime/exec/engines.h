// The engines a build contains and the modes they were asked for. To add one: write a Link in its own folder,
// add a create function to the table in engines.cpp, link its library in CMakeLists.txt. See README.md.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/exec/link.h"
#include "runtime/trace/decision.h"

namespace shunt::exec {

struct EngineSpec {
  const char* name;
  config::OptionId option;
  trace::Feature feature;
  // Creates the link for a mode other than off; null: nothing to do in this process. Called once, before any
  // driver call.
  Link* (*create)(const std::string& mode, const config::Config& config);
};

// In call order: placement, memory, overlap, graphs.
const std::vector<EngineSpec>& engines();

// Why no engine may run at all (sanitizer, debugger, CUDA_LAUNCH_BLOCKING, profiler with
// --under-profiler=off); none otherwise.
Reason engines_forbidden(const config::Config& config, std::string& evidence);

}  // namespace shunt::exec
