// Joins decisions with device work seen by another profiler, by ids only: an nsys SQLite export or a Kineto
// trace.
#pragma once
#include <map>
#include <string>

#include "tools/shunt/trace/trace_run.h"

namespace shunt::tool {

struct Correlation {
  uint64_t decisions = 0;                     // applied decisions looked at
  uint64_t without_work = 0;                  // of these: nothing on a device to be matched
  std::map<std::string, uint64_t> matched;    // by tier: "external-id", "nvtx-range", "correlation-id"
  std::map<std::string, uint64_t> unmatched;  // by cause
  std::map<std::string, uint64_t> gpu_ns;     // device time by feature
  std::string note;                           // what the file lacked
};

bool correlate_nsys(const TraceRun& run, const std::string& sqlite_path, Correlation& out,
                    std::string& error);
bool correlate_kineto(const TraceRun& run, const std::string& json_path, Correlation& out,
                      std::string& error);
// By the trace's own device records (--gpu-trace), no other file.
void correlate_self(const TraceRun& run, Correlation& out);
std::string correlation_text(const Correlation& c);
std::string correlation_json(const Correlation& c);

}  // namespace shunt::tool
