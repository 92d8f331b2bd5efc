#include "runtime/graphs/drain_rules.h"

#include <array>

namespace shunt::graphs {
namespace {

std::array<DrainRule, kOpKinds> make_table() {
  std::array<DrainRule, kOpKinds> table{};
  constexpr bool yes = true, no = false;
#define SHUNT_DRAIN_RULE(kind, scope, mark, why) \
  table[static_cast<size_t>(model::OpKind::kind)] = {DrainScope::scope, mark, true, why};
#include "runtime/graphs/drain_rules.def"
#undef SHUNT_DRAIN_RULE
  (void)no;
  return table;
}
std::array<DrainRule, kOpKinds> g_table = make_table();

}  // namespace

const DrainRule& drain_rule(model::OpKind kind) { return g_table[static_cast<size_t>(kind)]; }
DrainRule& drain_rule_for_tests(model::OpKind kind) { return g_table[static_cast<size_t>(kind)]; }

}  // namespace shunt::graphs
