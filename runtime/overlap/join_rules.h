// The join table as data (join_rules.def): what a stream waits for before a call of a kind. Constant; the
// mutable access is for tests that weaken rows. Any thread.
#pragma once
#include <cstdint>

#include "runtime/model/op.h"

namespace shunt::overlap {

enum class JoinScope : uint8_t { none, object, access, stream, all };
enum class LogAs : uint8_t { none, touches, barrier };

struct JoinRule {
  JoinScope scope = JoinScope::all;
  LogAs log = LogAs::barrier;
  bool listed = false;  // has a row of its own
  Reason reason = Reason::join_other;
  const char* why = "nobody described this call";
};

constexpr size_t kOpKinds = static_cast<size_t>(model::OpKind::count);

const JoinRule& join_rule(model::OpKind kind);
JoinRule& join_rule_for_tests(model::OpKind kind);

}  // namespace shunt::overlap
