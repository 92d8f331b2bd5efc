// Contexts and what is current on each thread.
#include "runtime/model/model.h"

namespace shunt::model {

CUcontext Model::current_context() {
  ThreadState& t = this_thread();
  if (__builtin_expect(t.current_known && t.context_epoch == context_epoch(), 1)) return t.current;
  t.context_epoch = context_epoch();
  t.current = nullptr;
  t.current_known = questions_.ctx_get_current && questions_.ctx_get_current(&t.current) == CUDA_SUCCESS;
  if (t.current) context(t.current);
  return t.current;
}

ContextInfo* Model::context(CUcontext handle) {
  if (!handle) return nullptr;
  ThreadState& t = this_thread();
  const auto key = reinterpret_cast<uint64_t>(handle);
  return contexts_.find_or_insert(key, &t.contexts, [&](ContextInfo& info) {
    // Seen first as somebody's current context: its device can be asked while it is current here.
    CUdevice device = -1;
    CUcontext current = nullptr;
    if (questions_.ctx_get_current && questions_.ctx_get_device &&
        questions_.ctx_get_current(&current) == CUDA_SUCCESS && current == handle &&
        questions_.ctx_get_device(&device) == CUDA_SUCCESS)
      info.device = device;
  });
}

int Model::device_of(CUcontext handle) {
  const ContextInfo* info = context(handle);
  return info ? info->device : -1;
}

void Model::before_context(Op& op, Undo& undo) {
  if (op.kind == OpKind::context_destroy) {
    undo.object = contexts_.detach(op.object);
    context_epoch_.fetch_add(1, std::memory_order_acq_rel);
  }
}

// Everything a dead context owned is gone; handles may come back with other owners.
void Model::forget_context_contents(CUcontext dead) {
  streams_.forget_if([&](uint64_t, const StreamInfo& s) { return s.context == dead; });
  events_.forget_if([&](uint64_t, const EventInfo& e) { return e.context == dead; });
  modules_.forget_if([&](uint64_t, const ModuleInfo& m) { return m.context == dead; });
  functions_.forget_if([&](uint64_t, const FunctionInfo& f) { return f.context == dead; });
  allocations_.forget_context(dead);
}

void Model::after_context(Op& op, Undo& undo) {
  ThreadState& t = this_thread();
  if (op.result != CUDA_SUCCESS) {
    if (op.kind == OpKind::context_destroy)
      contexts_.restore(op.object, static_cast<ContextInfo*>(undo.object));
    return;
  }
  switch (op.kind) {
    case OpKind::context_create:
    case OpKind::primary_retain: {
      const bool primary = op.kind == OpKind::primary_retain;
      const int device = static_cast<int>(op.object);
      ContextInfo* info = contexts_.find(op.out, nullptr);
      if (!primary || !info || info->device != device)
        contexts_.insert(op.out, [&](ContextInfo& c) {
          c.device = device;
          c.primary = primary;
          c.flags = static_cast<uint32_t>(op.aux);
        });
      if (!primary)
        t.current_known = false;  // creation also makes it current (unless green): ask when needed
      break;
    }
    case OpKind::context_current:
      // Set and push name the new current context; pop reveals one we may not know.
      if (op.aux) {
        t.current = reinterpret_cast<CUcontext>(op.object);
        t.current_known = true;
        t.context_epoch = context_epoch();
        if (t.current) context(t.current);
      } else {
        t.current_known = false;
      }
      break;
    case OpKind::context_destroy:
      contexts_.discard(static_cast<ContextInfo*>(undo.object));
      forget_context_contents(reinterpret_cast<CUcontext>(op.object));
      break;
    case OpKind::primary_reset: {
      // The context object survives, its content does not.
      const int device = static_cast<int>(op.object);
      CUcontext primary = nullptr;
      contexts_.for_each([&](uint64_t handle, ContextInfo& c) {
        if (c.primary && c.device == device) primary = reinterpret_cast<CUcontext>(handle);
      });
      if (primary) forget_context_contents(primary);
      context_epoch_.fetch_add(1, std::memory_order_acq_rel);
      break;
    }
    case OpKind::primary_release:
      context_epoch_.fetch_add(1, std::memory_order_acq_rel);
      break;
    default:
      break;
  }
}

}  // namespace shunt::model
