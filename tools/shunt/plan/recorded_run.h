// Reader of what `shunt run --record-dag` wrote (format: runtime/placement/recorder.h), and its tasks as a
// plan. Trusts nothing in the file; a last line without its end, as a killed process leaves it, is not used.
// One thread; never throws.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/shunt/plan/plan_input.h"

namespace shunt::tool {

struct RecordedOp {
  uint64_t id = 0, stream = 0;
  int device = -1;
  std::string kind, name;  // name: mangled, of kernels
  uint32_t blocks = 0, threads = 0;
  uint64_t bytes = 0, memory = 0;
  double seconds = -1;
  std::vector<std::pair<uint64_t, uint64_t>> dependencies;  // id, shared bytes
};

struct RecordedRun {
  std::map<int, std::string> devices;  // ordinal -> profile key, "?" for an unknown model
  std::vector<RecordedOp> ops;         // ids 1, 2, ... in order
  uint64_t program = 0, code = 0;      // placement::program_id, of the executable's file; 0: not said
  std::string path;                    // of the executable
  bool simulated = false;              // times are simgpu's
  std::map<int, uint64_t> peaks;       // largest working set per device
  bool complete = false;               // the program ended in order
  uint64_t dropped = 0;                // tasks beyond what is recorded
};

bool is_recorded_run(const std::string& text);
bool parse_recorded_run(const std::string& text, RecordedRun& run, std::string& error);
void plan_of(const RecordedRun& run, PlanInput& input);

}  // namespace shunt::tool
