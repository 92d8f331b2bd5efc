// `shunt devices` as text and JSON: a table that fits the terminal, notes on what is not in order, processes.
// Pure functions of a snapshot; any thread.
#pragma once
#include <string>

#include "runtime/monitor/device.h"

namespace shunt::tools {

// At most `columns` wide (40 at least; 80 where the width is unknown). A wider terminal gets clocks, bus id
// and UUID. Ends with a newline. "-" stands for what the library or the part cannot say.
std::string render_table(const monitor::Snapshot& snapshot, int columns = 80);
// {"driver": ..., "cuda": ..., "devices": [...]}: stable names, bytes and watts, null for unknown.
std::string render_json(const monitor::Snapshot& snapshot);

}  // namespace shunt::tools
