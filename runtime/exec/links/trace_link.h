// Trace begin: records the program's calls as it made them, with the code it got. One record, one clock read.
#pragma once
#include "runtime/exec/link.h"
#include "runtime/model/objects.h"
#include "runtime/trace/writer.h"

namespace shunt::exec {

class TraceLink final : public Link {
 public:
  explicit TraceLink(bool every_call) : every_call_(every_call) {}
  const char* name() const override { return "trace"; }
  CUresult on_op(model::Op& op) override {
    const CUresult result = next->on_op(op);
    if (every_call_ || op.op_class == model::OpClass::launch || op.op_class == model::OpClass::copy)
      record(op, result);
    return result;
  }

 private:
  static void record(const model::Op& op, CUresult result) {
    uint64_t value = op.bytes;
    if (op.kind == model::OpKind::kernel || op.kind == model::OpKind::kernel_ex ||
        op.kind == model::OpKind::kernel_cooperative) {
      const auto& l = op.launch;
      value = uint64_t{l.grid[0]} * l.grid[1] * l.grid[2] * l.block[0] * l.block[1] * l.block[2];
    }
    trace::call(op.slot, static_cast<uint16_t>(op.op_class), static_cast<int32_t>(result),
                op.object ? op.object : op.out,
                op.stream_info ? op.stream_info->id : reinterpret_cast<uint64_t>(op.stream), value);
  }
  const bool every_call_;
};

}  // namespace shunt::exec
