#include "runtime/trace/decision.h"

namespace shunt::trace {

std::string_view feature_name(Feature feature) {
  switch (feature) {
#define SHUNT_FEATURE(number, id, name) \
  case Feature::id:                     \
    return name;
#include "runtime/trace/actions.def"
#undef SHUNT_FEATURE
  }
  return "unknown-feature";
}

std::string_view action_name(Action action) {
  switch (action) {
#define SHUNT_ACTION(number, id, name) \
  case Action::id:                     \
    return name;
#include "runtime/trace/actions.def"
#undef SHUNT_ACTION
  }
  return "unknown-action";
}

std::string_view outcome_name(Outcome outcome) {
  static constexpr std::string_view names[] = {"applied", "declined", "failed", "shadow"};
  const auto i = static_cast<size_t>(outcome);
  return i < 4 ? names[i] : "unknown-outcome";
}

}  // namespace shunt::trace
