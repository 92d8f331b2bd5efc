// Decisions and their device work as the trace itself knows them: CUPTI's external ids, recorded in the run
// (--gpu-trace). Also why a decision has none.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "tools/shunt/trace/correlate.h"

namespace shunt::tool {

// Decision ids are unique in a process only.
using DecisionKey = std::pair<uint32_t, uint64_t>;  // pid, id

struct Wanted {
  std::string feature;
  trace::Action action;
};
using WantedDecisions = std::map<DecisionKey, Wanted>;

class OwnRecords {
 public:
  // One pass: the applied decisions, and what CUPTI said about each.
  explicit OwnRecords(const TraceRun& run);
  WantedDecisions wanted;
  // Takes out of `wanted` what has device work in the trace.
  void match(Correlation& out);
  // Every decision still wanted, with its cause. `elsewhere`: what the other file lacks, "" without one.
  void name_causes(const std::string& elsewhere, Correlation& out) const;

 private:
  struct Work {
    uint64_t ns = 0, records = 0, unstamped = 0;
  };
  struct Process {
    bool recording = false;  // CUPTI was started
    bool closed = false;
    uint64_t lost = 0;
    std::string refused;
  };
  std::string cause(const DecisionKey& key, const Wanted& wanted, const std::string& elsewhere) const;
  std::map<DecisionKey, Work> work_;
  std::map<DecisionKey, uint64_t> leaders_;  // decision -> the one its work was enqueued with
  std::map<DecisionKey, uint32_t> calls_;    // decision -> correlation id of its call
  std::map<uint32_t, Process> processes_;
};

}  // namespace shunt::tool
