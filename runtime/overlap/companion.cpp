#include "runtime/overlap/companion.h"

#include "runtime/exec/driver.h"
#include "runtime/model/model.h"

namespace shunt::overlap {
namespace {

bool is_special(CUstream stream) { return reinterpret_cast<uint64_t>(stream) <= 2; }

model::Op own_op(model::OpKind kind, CUstream stream, CUcontext context, CUevent event) {
  model::Op op;
  op.op_class = model::OpClass::launch;
  op.kind = kind;
  op.asynchronous = true;
  op.from_engine = true;
  op.stream = stream;
  op.context = context;
  op.per_thread = stream == CU_STREAM_PER_THREAD;
  op.object = reinterpret_cast<uint64_t>(event);
  op.stream_info = model::Model::get().stream(stream, false, context);
  return op;
}

}  // namespace

Current::Current(CUcontext context) {
  const exec::Driver& driver = exec::Driver::get();
  before_ = model::Model::get().current_context();
  if (before_ == context) return;
  ok_ = driver.ctx_set_current(context) == CUDA_SUCCESS;
  changed_ = ok_;
}

Current::~Current() {
  if (changed_) exec::Driver::get().ctx_set_current(before_);
}

OwnEvent Events::take(CUcontext context) {
  OwnEvent out;
  {
    WriteGuard guard(lock_);
    Free*& free = free_[reinterpret_cast<uint64_t>(context)];
    if (!free) free = new Free();
    out.epoch = free->epoch;
    if (!free->events.empty()) {
      out.event = free->events.back();
      free->events.pop_back();
      return out;
    }
  }
  Current current(context);
  if (!current.ok() || exec::Driver::get().event_create(&out.event, flags_) != CUDA_SUCCESS)
    out.event = nullptr;
  return out;
}

void Events::give(CUcontext context, OwnEvent event) {
  if (!event) return;
  WriteGuard guard(lock_);
  Free** free = free_.find(reinterpret_cast<uint64_t>(context));
  if (free && (*free)->epoch == event.epoch) (*free)->events.push_back(event.event);
}

void Events::forget_context(CUcontext context) {
  WriteGuard guard(lock_);
  if (Free** free = free_.find(reinterpret_cast<uint64_t>(context))) {
    (*free)->epoch++;
    (*free)->events.clear();
  }
}

void Events::reset_after_fork() { lock_.reset_after_fork(); }

CUresult record(exec::Link* below, CUevent event, CUstream stream, CUcontext context) {
  model::Op op = own_op(model::OpKind::event_record, stream, context, event);
  op.slot = SHUNT_SLOT_cuEventRecord;
  op.invoke = [](model::Op& o) {
    // The default streams are those of the current context.
    if (is_special(o.stream)) {
      Current current(o.context);
      return o.result = exec::Driver::get().event_record(reinterpret_cast<CUevent>(o.object), o.stream);
    }
    return o.result = exec::Driver::get().event_record(reinterpret_cast<CUevent>(o.object), o.stream);
  };
  return below->on_op(op);
}

CUresult wait(exec::Link* below, CUstream stream, CUevent event, CUcontext context) {
  model::Op op = own_op(model::OpKind::event_wait, stream, context, event);
  op.slot = SHUNT_SLOT_cuStreamWaitEvent;
  op.invoke = [](model::Op& o) {
    if (is_special(o.stream)) {
      Current current(o.context);
      return o.result =
                 exec::Driver::get().stream_wait_event(o.stream, reinterpret_cast<CUevent>(o.object), 0);
    }
    return o.result = exec::Driver::get().stream_wait_event(o.stream, reinterpret_cast<CUevent>(o.object), 0);
  };
  return below->on_op(op);
}

}  // namespace shunt::overlap
