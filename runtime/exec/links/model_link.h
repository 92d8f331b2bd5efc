// First link: keeps the shadow state (runtime/model) in step with what the driver accepted.
#pragma once
#include "runtime/exec/chain.h"
#include "runtime/exec/link.h"
#include "runtime/model/model.h"

namespace shunt::exec {

class ModelLink final : public Link {
 public:
  const char* name() const override { return "model"; }
  CUresult on_op(model::Op& op) override {
    model::Model& model = model::Model::get();
    model::Model::Undo undo;
    model.before(op, undo);
    const CUresult result = next->on_op(op);
    // A delaying link answers success for work it still holds; what the program sees is what the shadow
    // follows.
    op.result = result;
    model.after(op, undo);
    return result;
  }
};

}  // namespace shunt::exec
