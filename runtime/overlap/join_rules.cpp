#include "runtime/overlap/join_rules.h"

#include <array>

namespace shunt::overlap {
namespace {

std::array<JoinRule, kOpKinds> make_table() {
  std::array<JoinRule, kOpKinds> table{};
#define SHUNT_JOIN_RULE(kind, scope, log, reason, why) \
  table[static_cast<size_t>(model::OpKind::kind)] = {JoinScope::scope, LogAs::log, true, Reason::reason, why};
#include "runtime/overlap/join_rules.def"
#undef SHUNT_JOIN_RULE
  return table;
}
std::array<JoinRule, kOpKinds> g_table = make_table();

}  // namespace

const JoinRule& join_rule(model::OpKind kind) { return g_table[static_cast<size_t>(kind)]; }
JoinRule& join_rule_for_tests(model::OpKind kind) { return g_table[static_cast<size_t>(kind)]; }

}  // namespace shunt::overlap
