// The drain table as data: how much a call of a kind drains, and whether it is a step of its stream's
// sequence. Constant; the mutable access is for tests that take rows away. Any thread.
#pragma once
#include <cstdint>

#include "runtime/model/op.h"

namespace shunt::graphs {

enum class DrainScope : uint8_t { none, stream, all };

struct DrainRule {
  DrainScope scope = DrainScope::all;
  bool mark = false;
  bool listed = false;  // has a row of its own
  const char* why = "nobody described this call";
};

constexpr size_t kOpKinds = static_cast<size_t>(model::OpKind::count);

const DrainRule& drain_rule(model::OpKind kind);
DrainRule& drain_rule_for_tests(model::OpKind kind);

}  // namespace shunt::graphs
