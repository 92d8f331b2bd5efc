// Streams, events and captures.
#include "runtime/model/model.h"

namespace shunt::model {
namespace {

// The three special handles stand for one stream per context, or per context and thread; real handles are
// pointers and never collide with these keys, which have the top bit set.
uint64_t special_key(CUcontext context, int thread_index) {
  return UINT64_C(1) << 63 |
         mix64(reinterpret_cast<uint64_t>(context) * 31 + static_cast<uint64_t>(thread_index)) >> 1;
}

}  // namespace

StreamInfo* Model::stream(CUstream handle, bool per_thread, CUcontext current) {
  ThreadState& t = this_thread();
  const auto value = reinterpret_cast<uint64_t>(handle);
  if (value > 2)
    return streams_.find_or_insert(value, &t.streams, [&](StreamInfo& s) {
      // Created before the hooks were in, or by a call the spec does not describe.
      s.handle = handle;
      if (!questions_.stream_get_ctx || questions_.stream_get_ctx(handle, &s.context) != CUDA_SUCCESS)
        s.context = current;
      unsigned int flags = 0;
      if (questions_.stream_get_flags && questions_.stream_get_flags(handle, &flags) == CUDA_SUCCESS)
        s.non_blocking = (flags & CU_STREAM_NON_BLOCKING) != 0;
    });
  const bool thread_default =
      value == reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD) || (value == 0 && per_thread);
  return streams_.find_or_insert(
      special_key(current, thread_default ? t.index : 0), &t.streams, [&](StreamInfo& s) {
        s.handle = thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
        s.context = current;
        s.role = thread_default ? StreamRole::thread_default : StreamRole::legacy_default;
      });
}

EventInfo* Model::event(CUevent handle) {
  if (!handle) return nullptr;
  return events_.find_or_insert(reinterpret_cast<uint64_t>(handle), &this_thread().events,
                                [&](EventInfo& e) { e.context = current_context(); });
}

void Model::after_stream(Op& op, Undo& undo) {
  const bool ok = op.result == CUDA_SUCCESS;
  switch (op.kind) {
    case OpKind::stream_create:
      if (ok)
        streams_.insert(op.out, [&](StreamInfo& s) {
          s.handle = reinterpret_cast<CUstream>(op.out);
          s.context = op.context;
          s.non_blocking = (op.aux & CU_STREAM_NON_BLOCKING) != 0;
          s.priority = static_cast<int>(static_cast<int64_t>(op.bytes));
        });
      return;
    case OpKind::event_create:
      if (ok)
        events_.insert(op.out, [&](EventInfo& e) {
          e.context = op.context;
          e.flags = static_cast<uint32_t>(op.aux);
        });
      return;
    case OpKind::stream_destroy:
      ok ? streams_.discard(static_cast<StreamInfo*>(undo.object))
         : streams_.restore(op.object, static_cast<StreamInfo*>(undo.object));
      return;
    case OpKind::event_destroy:
      ok ? events_.discard(static_cast<EventInfo*>(undo.object))
         : events_.restore(op.object, static_cast<EventInfo*>(undo.object));
      return;
    case OpKind::event_record:
      if (!ok || !op.stream_info) return;
      if (EventInfo* e = event(reinterpret_cast<CUevent>(op.object))) {
        const uint64_t capture = op.stream_info->capture_id.load(std::memory_order_acquire);
        e->capture_id.store(capture, std::memory_order_relaxed);
        e->recorded_stream_id.store(op.stream_info->id, std::memory_order_release);
      }
      return;
    case OpKind::event_wait:
      // Waiting for an event recorded inside a capture draws the waiting stream into it.
      if (!ok || !op.stream_info) return;
      if (const EventInfo* e = event(reinterpret_cast<CUevent>(op.object)))
        if (const uint64_t capture = e->capture_id.load(std::memory_order_acquire))
          op.stream_info->capture_id.store(capture, std::memory_order_release);
      return;
    default:
      return;
  }
}

void Model::after_capture(Op& op) {
  if (!op.stream_info) return;
  if (op.kind == OpKind::capture_begin) {
    if (op.result != CUDA_SUCCESS) return;
    op.stream_info->capture_id.store(next_capture_.fetch_add(1), std::memory_order_release);
    live_captures_.fetch_add(1, std::memory_order_acq_rel);
    return;
  }
  // Ending takes the stream out of capture mode whether it succeeded or the capture was invalidated; only a
  // call on a stream that was not the origin leaves things as they are.
  if (op.result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED ||
      op.result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD || op.result == CUDA_ERROR_ILLEGAL_STATE ||
      op.result == CUDA_ERROR_INVALID_VALUE || op.result == CUDA_ERROR_INVALID_HANDLE)
    return;
  const uint64_t capture = op.stream_info->capture_id.exchange(0, std::memory_order_acq_rel);
  if (!capture) return;
  live_captures_.fetch_sub(1, std::memory_order_acq_rel);
  streams_.for_each([&](uint64_t, StreamInfo& s) {
    uint64_t same = capture;
    s.capture_id.compare_exchange_strong(same, 0, std::memory_order_acq_rel);
  });
  events_.for_each([&](uint64_t, EventInfo& e) {
    uint64_t same = capture;
    e.capture_id.compare_exchange_strong(same, 0, std::memory_order_acq_rel);
  });
}

}  // namespace shunt::model
