// Vocabulary of decisions: feature, action, outcome (actions.def) beside the reason (base/reasons.def).
// Constant; any thread.
#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/base/reasons.h"

namespace shunt::trace {

enum class Feature : uint8_t {
#define SHUNT_FEATURE(number, id, name) id = number,
#include "runtime/trace/actions.def"
#undef SHUNT_FEATURE
};
enum class Action : uint8_t {
#define SHUNT_ACTION(number, id, name) id = number,
#include "runtime/trace/actions.def"
#undef SHUNT_ACTION
};
enum class Outcome : uint8_t { applied, declined, failed, shadow };

std::string_view feature_name(Feature);
std::string_view action_name(Action);
std::string_view outcome_name(Outcome);
// Whether applying it puts work on a device that CUPTI can tie to it; the others act on the host or on what
// later calls do.
constexpr bool has_device_work(Action action) {
  return action == Action::graph_replay || action == Action::comm_move || action == Action::promote;
}

struct Decision {
  Feature feature = Feature::process;
  Action action = Action::none;
  Reason reason = Reason::none;
  Outcome outcome = Outcome::applied;
  int16_t device = -1;
  uint64_t stream = 0, context = 0, bytes = 0;
  uint32_t stack = 0, correlation = 0;
};

}  // namespace shunt::trace
