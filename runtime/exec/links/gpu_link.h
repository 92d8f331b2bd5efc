// Device times (--gpu-trace): starts CUPTI when the program's cuInit has returned, and has it write down what
// is complete at the program's own synchronisations.
#pragma once
#include "runtime/exec/host.h"
#include "runtime/exec/link.h"
#include "runtime/trace/gpu_trace.h"

namespace shunt::exec {

class GpuLink final : public Link {
 public:
  const char* name() const override { return "gpu-trace"; }
  bool sees_launches() const override { return false; }
  CUresult on_op(model::Op& op) override {
    const CUresult result = next->on_op(op);
    if (op.slot == SHUNT_SLOT_cuInit && result == CUDA_SUCCESS) {
      OwnWork own;  // what CUPTI looks up is the driver itself
      trace::gpu::start();
    } else if (op.op_class == model::OpClass::sync) {
      OwnWork own;
      trace::gpu::flush_sometimes();
    }
    return result;
  }
};

}  // namespace shunt::exec
