// Stable reason codes (reasons.def). A reason is what users grep for and what traces store as a number.
// Constant data, any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace shunt {

enum class Reason : uint16_t {
#define SHUNT_REASON(number, id, name, doc) id = number,
#include "runtime/base/reasons.def"
#undef SHUNT_REASON
};

struct ReasonInfo {
  Reason reason;
  std::string_view name, doc;
};

std::span<const ReasonInfo> reasons();
// "unknown-reason" for a number this build does not know (a newer trace).
std::string_view reason_name(Reason);
std::string_view reason_doc(Reason);

}  // namespace shunt
