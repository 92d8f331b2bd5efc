#include "runtime/model/model.h"

namespace shunt::model {

std::atomic<Model*> Model::instance_{new Model()};

void Model::before(Op& op, Undo& undo) {
  switch (op.kind) {
    case OpKind::kernel:
    case OpKind::kernel_ex:
    case OpKind::kernel_cooperative:
      op.function_info = function(reinterpret_cast<CUfunction>(op.object));
      break;
    // Destructions are forgotten first: the driver may hand the same value to another thread before it
    // returns to us.
    case OpKind::stream_destroy:
      undo.object = streams_.detach(op.object);
      return;
    case OpKind::event_destroy:
      undo.object = events_.detach(op.object);
      return;
    case OpKind::module_unload:
      undo.object = modules_.detach(op.object);
      return;
    case OpKind::free_linear:
    case OpKind::free_host:
    case OpKind::free_async:
    case OpKind::unregister_host:
    case OpKind::unmap_vmm:
      undo.allocation = allocations_.detach(op.object);
      if (undo.allocation) op.bytes = undo.allocation->bytes, op.device = undo.allocation->device;
      if (op.kind != OpKind::free_async) return;
      break;
    case OpKind::free_vmm:
      undo.allocation = reservations_.detach(op.object);
      return;
    case OpKind::context_destroy:
    case OpKind::primary_release:
    case OpKind::primary_reset:
      before_context(op, undo);
      return;
    default:
      break;
  }
  if (op.op_class == OpClass::harmless || op.op_class == OpClass::module || op.op_class == OpClass::device)
    return;
  if (!op.context) op.context = current_context();
  if (!op.stream_info && (op.has_stream_order() || op.stream))
    op.stream_info = stream(op.stream, op.per_thread, op.context);
}

void Model::after(Op& op, Undo& undo) {
  switch (op.kind) {
    case OpKind::other:
    case OpKind::kernel:
    case OpKind::kernel_ex:
    case OpKind::kernel_cooperative:
      return;
    case OpKind::context_create:
    case OpKind::context_destroy:
    case OpKind::context_current:
    case OpKind::primary_retain:
    case OpKind::primary_release:
    case OpKind::primary_reset:
      after_context(op, undo);
      return;
    case OpKind::stream_create:
    case OpKind::stream_destroy:
    case OpKind::event_create:
    case OpKind::event_destroy:
    case OpKind::event_record:
    case OpKind::event_wait:
      after_stream(op, undo);
      return;
    case OpKind::capture_begin:
    case OpKind::capture_end:
      after_capture(op);
      return;
    case OpKind::module_load:
    case OpKind::module_unload:
    case OpKind::function_get:
      after_code(op, undo);
      return;
    default:
      after_memory(op, undo);
      return;
  }
}

void Model::after_memory(Op& op, Undo& undo) {
  const bool failed = op.result != CUDA_SUCCESS;
  switch (op.kind) {
    case OpKind::free_linear:
    case OpKind::free_host:
    case OpKind::free_async:
    case OpKind::unregister_host:
    case OpKind::unmap_vmm:
      if (failed && undo.allocation) allocations_.restore(*undo.allocation);
      return;
    case OpKind::free_vmm:
      if (failed && undo.allocation) reservations_.restore(*undo.allocation);
      return;
    default:
      break;
  }
  if (failed || op.out == 0) return;
  Allocation a;
  a.base = op.out;
  a.bytes = op.bytes;
  a.context = op.context;
  a.handle = op.aux;
  a.device = device_of(op.context);
  switch (op.kind) {
    case OpKind::alloc_linear:
      a.kind = MemoryKind::device;
      break;
    case OpKind::alloc_pitch:
      a.kind = MemoryKind::pitched;
      break;
    case OpKind::alloc_managed:
      a.kind = MemoryKind::managed;
      break;
    case OpKind::alloc_host:
      a.kind = MemoryKind::host, a.device = -1;
      break;
    case OpKind::register_host:
      a.kind = MemoryKind::registered, a.device = -1;
      break;
    case OpKind::alloc_async:
      a.kind = MemoryKind::async;
      break;
    case OpKind::alloc_pool:
      a.kind = MemoryKind::pool;
      break;
    case OpKind::map_vmm:
      a.kind = MemoryKind::vmm_mapping;
      break;
    case OpKind::alloc_vmm:
      a.kind = MemoryKind::vmm_reservation;
      reservations_.insert(a);
      return;
    default:
      return;
  }
  if (op.stream_info) a.stream_id = op.stream_info->id;
  allocations_.insert(a);
}

Model::Counts Model::counts() const {
  return {contexts_.size(),  streams_.size(), events_.size(),
          functions_.size(), modules_.size(), allocations_.size()};
}

void Model::fork_child() {
  auto* fresh = new Model();
  fresh->questions_ = get().questions_;
  instance_.store(fresh, std::memory_order_release);
  thread_states_after_fork();
}

}  // namespace shunt::model
