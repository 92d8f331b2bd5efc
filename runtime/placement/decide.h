// Placement P1: which device a program's ordinal 0 should be, and in which order it sees the others. Pure
// function of facts, hints and mode: same input, same answer. Every device that was visible stays visible, so
// device counts never change.
//
// Default (no hint): the model CUDA would have used, i.e. that of the first visible device; among devices of
// that model an idle one before a busy one, then the one with most free memory (differences below 2 % do not
// count), then the lowest ordinal. mem= (plus context= x kv-bytes-per-token= x batch=) is a hard limit: free
// memory >= need + margin (8 %). When the default model cannot hold it, any model may. role=, context=,
// batch= and large needs may select another model by a rule (rules.h); model= names it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/reasons.h"
#include "runtime/binary/fatbin.h"
#include "runtime/config/hints.h"
#include "runtime/placement/cost_model.h"
#include "runtime/placement/facts.h"
#include "runtime/placement/rules.h"

namespace shunt::placement {

enum class Mode : uint8_t { off, shadow, on, mixed };
Mode parse_mode(const std::string& text);

struct Request {
  Mode mode = Mode::on;
  config::Hints hints;
  const RuleSet* rules = nullptr;  // null: those shipped
  // Of earlier runs of the program: its largest working set, used where no hint says what it needs, and its
  // device time by index into the facts (empty: unknown), used among models.
  uint64_t history_need_bytes = 0;
  std::vector<Estimate> predictions;
  std::optional<std::string> visible_devices;           // CUDA_VISIBLE_DEVICES, nullopt when unset
  const std::vector<binary::Entry>* program = nullptr;  // device code of the program, null or empty: unknown
  bool ptx_only = false;                                // simgpu runs PTX, no machine code
  bool allow_newer_ptx = false;
  int local_ranks = 1;     // > 1: a launcher already distributes ranks over devices
  bool whole_job = false;  // the answer is for all ranks at once (job_map.h), so they stay one to one
};

struct Considered {
  int device;  // index into the facts
  bool feasible;
  Reason reason;  // why not, or what spoke for it
};

struct Plan {
  Reason reason = Reason::placed_default;
  int device = -1;           // index into the facts; -1: none visible
  std::vector<int> order;    // indices into the facts, the program's new order
  bool changed = false;      // the order differs from the program's own
  bool other_model = false;  // results may differ in bits: the start line says so
  uint64_t need_bytes = 0;
  bool need_from_history = false;
  std::string why;   // one line for people
  std::string rule;  // the rule that chose the model, if one did
  std::vector<Considered> considered;
  // "GPU-...,GPU-..." for CUDA_VISIBLE_DEVICES.
  std::string visible_devices(const std::vector<DeviceFacts>& facts) const;
};

Plan decide(const Request& request, const std::vector<DeviceFacts>& facts);

// Can the program's code run there? True when nothing is known about the program.
bool binary_fits(const Request& request, const DeviceFacts& device);

}  // namespace shunt::placement
