// The HTML report of a run: one offline file, inline SVG, light and dark, keyboard usable, patterns as well
// as colours, each chart with its table. Sizes stay bounded whatever the run's length: strips are binned,
// tables cut with a count of the rest.
#pragma once
#include <string>

#include "tools/shunt/trace/trace_run.h"

namespace shunt::tool {

bool write_report(const TraceRun& run, const std::string& path, const Progress& progress, std::string& error);

}  // namespace shunt::tool
