// The report's section on device streams: when each was busy, overlap and gaps, and the same as a table.
#pragma once
#include <string>

#include "tools/shunt/trace/report_data.h"

namespace shunt::tool {

std::string streams_section(const TraceRun& run, const ReportData& data);

}  // namespace shunt::tool
