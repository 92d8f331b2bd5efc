// Last link: the program's call, with the program's arguments, to the real entry point.
#pragma once
#include "runtime/exec/link.h"

namespace shunt::exec {

class DriverLink final : public Link {
 public:
  const char* name() const override { return "driver"; }
  bool sees_launches() const override { return false; }
  CUresult on_op(model::Op& op) override { return op.invoke(op); }
};

}  // namespace shunt::exec
