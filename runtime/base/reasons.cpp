#include "runtime/base/reasons.h"

namespace shunt {
namespace {
constexpr ReasonInfo kReasons[] = {
#define SHUNT_REASON(number, id, name, doc) {Reason::id, name, doc},
#include "runtime/base/reasons.def"
#undef SHUNT_REASON
};
}  // namespace

std::span<const ReasonInfo> reasons() { return kReasons; }

std::string_view reason_name(Reason reason) {
  for (const ReasonInfo& info : kReasons)
    if (info.reason == reason) return info.name;
  return "unknown-reason";
}

std::string_view reason_doc(Reason reason) {
  for (const ReasonInfo& info : kReasons)
    if (info.reason == reason) return info.doc;
  return "";
}

}  // namespace shunt
