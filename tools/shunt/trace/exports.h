// Exports of a recorded run. Each writes one file in a single pass and bounded memory; false with one line on
// failure.
#pragma once
#include <string>

#include "tools/shunt/trace/trace_run.h"

namespace shunt::tool {

bool export_chrome(const TraceRun& run, const std::string& path, const Progress& progress,
                   std::string& error);
bool export_csv(const TraceRun& run, const std::string& path, const Progress& progress, std::string& error);
bool export_perfetto(const TraceRun& run, const std::string& path, const Progress& progress,
                     std::string& error);
bool export_sqlite(const TraceRun& run, const std::string& path, const Progress& progress,
                   std::string& error);

}  // namespace shunt::tool
