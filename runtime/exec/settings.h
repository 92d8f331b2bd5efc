// Settings of this process, read once from the environment. Immutable afterwards; any thread.
#pragma once
#include "runtime/config/config.h"

namespace shunt::exec {

const config::Config& settings();
// Reads the environment and reports problems (once per process tree: children of `shunt run` stay silent).
void load_settings();

}  // namespace shunt::exec
