// The eight-line summary after a run, from the same counts as `shunt trace summary`. One thread.
#pragma once
#include <string>

namespace shunt::tool {

struct RunFacts {
  double seconds = 0;
  int rank = -1, pid = 0, status = 0;
  bool signaled = false;
  std::string kept_trace;  // empty: it was temporary
};
std::string end_of_run_text(const RunFacts& facts, const std::string& trace_folder);

}  // namespace shunt::tool
