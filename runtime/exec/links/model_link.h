// First link: keeps the shadow state (runtime/model) in step with what the driver accepted.
#pragma once
#include "runtime/exec/chain.h"
#include "runtime/exec/link.h"
#include "runtime/model/model.h"

namespace shunt::exec {

class ModelLink final : public Link {
 public:
  const char* name() const override { return "model"; }
  bool sees_launches() const override { return false; }
  CUresult on_op(model::Op& op) override {
    model::Model& model = model::Model::get();
    model::Model::Undo undo;
    model.before(op, undo);
    forget(op);
    const CUresult result = next->on_op(op);
    // A delaying link answers success for work it still holds; what the program sees is what the shadow
    // follows.
    op.result = result;
    model.after(op, undo);
    return result;
  }

 private:
  // Before the driver destroys it: links submit what they hold for the object and drop what refers to it.
  static void forget(const model::Op& op) {
    using model::OpKind;
    switch (op.kind) {
      case OpKind::context_destroy:
        return Chain::get().forget(HandleKind::context, op.object);
      case OpKind::primary_release:
      case OpKind::primary_reset:
        return Chain::get().forget(HandleKind::context, 0);  // named by its device: any of them
      case OpKind::stream_destroy:
        return Chain::get().forget(HandleKind::stream, op.object);
      case OpKind::event_destroy:
        return Chain::get().forget(HandleKind::event, op.object);
      case OpKind::module_unload:
        return Chain::get().forget(HandleKind::module, op.object);
      case OpKind::free_linear:
      case OpKind::free_host:
      case OpKind::unmap_vmm:
        return Chain::get().forget(HandleKind::allocation, op.object);
      default:
        return;
    }
  }
};

}  // namespace shunt::exec
