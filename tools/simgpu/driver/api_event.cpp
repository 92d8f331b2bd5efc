// Events: creation, recording, queries, waits, elapsed virtual time.
#include <algorithm>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/ipc.h"
#include "tools/simgpu/driver/core/ops.h"

using namespace simgpu::driver;

namespace {
CUresult record(Lock& lock, CUevent handle, CUstream stream_handle, unsigned flags) {
  Event* event = lookup<Event>(handle);
  SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_REQUIRE(!(flags & ~CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(stream_handle, stream, context));
  SIMGPU_REQUIRE(event->context.lock() == context, CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_TRY(fault_point("event_record", CUDA_ERROR_LAUNCH_FAILED));
  if (g_record_event_hook) {
    bool handled = false;
    const CUresult result = g_record_event_hook(lock, stream, *event, flags, handled);
    if (handled) return result;
  }
  OpRef op;
  if (event->ipc) {
    SIMGPU_TRY(ipc_record_event(lock, stream, *event, &op));
  } else {
    SIMGPU_TRY(submit(lock, stream, std::make_shared<MarkerBody>(OpKind::event_record, "event record"), &op));
  }
  event->record = op;
  event->recorded = true;
  event->capture.reset();
  return CUDA_SUCCESS;
}

// The error of the context an event lives in, so that waiting on it after a fault says so.
CUresult event_context(Event& event, std::shared_ptr<Context>& context) {
  context = event.context.lock();
  if (!context || context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context->sticky.load();
}

CUresult elapsed(Lock& lock, float* milliseconds, CUevent start_handle, CUevent end_handle) {
  SIMGPU_REQUIRE(milliseconds, CUDA_ERROR_INVALID_VALUE);
  Event *start = lookup<Event>(start_handle), *end = lookup<Event>(end_handle);
  SIMGPU_REQUIRE(start && end, CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_REQUIRE(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_REQUIRE(start->recorded && end->recorded, CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_TRY(capture_check(CaptureQuestion::event_query, nullptr, nullptr, start));
  SIMGPU_TRY(capture_check(CaptureQuestion::event_query, nullptr, nullptr, end));
  const OpRef from = start->record, to = end->record;
  if (!Engine::get().query(lock, from) || !Engine::get().query(lock, to)) return CUDA_ERROR_NOT_READY;
  *milliseconds = float((double(to->end_ns) - double(from->end_ns)) * 1e-6);
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  return api_call("cuEventCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(phEvent, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!(Flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)),
                   CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!(Flags & CU_EVENT_INTERPROCESS) || (Flags & CU_EVENT_DISABLE_TIMING),
                   CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    SIMGPU_TRY(fault_point("event", CUDA_ERROR_OUT_OF_MEMORY));
    auto event = std::make_shared<Event>();
    event->context = shared(context);
    event->device = context->device->ordinal;
    event->flags = Flags;
    make_handle(event);
    context->events.insert(event.get());
    *phEvent = handle_of<CUevent>(*event);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuEventRecord(CUevent hEvent, CUstream hStream) {
  return api_call("cuEventRecord", kNeedsInit,
                  [&](Lock& lock) -> CUresult { return record(lock, hEvent, hStream, 0); });
}
SIMGPU_API cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return api_call("cuEventRecordWithFlags", kNeedsInit,
                  [&](Lock& lock) -> CUresult { return record(lock, hEvent, hStream, flags); });
}

SIMGPU_API cuEventQuery(CUevent hEvent) {
  return api_call("cuEventQuery", kNeedsInit, [&](Lock& lock) -> CUresult {
    Event* event = lookup<Event>(hEvent);
    SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    auto keep = shared(event);
    std::shared_ptr<Context> context;
    SIMGPU_TRY(event_context(*event, context));
    SIMGPU_TRY(capture_check(CaptureQuestion::event_query, context.get(), nullptr, event));
    SIMGPU_TRY(fault_point("event_query", CUDA_ERROR_LAUNCH_FAILED));
    if (g_ipc_event_query && event->ipc) return g_ipc_event_query(lock, *event, false);
    const bool done = Engine::get().query(lock, event->record);
    if (context->sticky.load() != CUDA_SUCCESS) return context->sticky.load();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

SIMGPU_API cuEventSynchronize(CUevent hEvent) {
  return api_call("cuEventSynchronize", kNeedsInit, [&](Lock& lock) -> CUresult {
    Event* event = lookup<Event>(hEvent);
    SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    auto keep = shared(event);
    std::shared_ptr<Context> context;
    SIMGPU_TRY(event_context(*event, context));
    SIMGPU_TRY(capture_check(CaptureQuestion::event_query, context.get(), nullptr, event));
    SIMGPU_TRY(fault_point("event_sync", CUDA_ERROR_LAUNCH_FAILED));
    if (g_ipc_event_query && event->ipc) return g_ipc_event_query(lock, *event, true);
    return wait_for(lock, *context, {event->record}, event);
  });
}

SIMGPU_API cuEventDestroy_v2(CUevent hEvent) {
  return api_call("cuEventDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    Event* event = lookup<Event>(hEvent);
    SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    if (auto context = event->context.lock()) context->events.erase(event);
    drop_handle(*event);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuEventDestroy(CUevent hEvent) { return cuEventDestroy_v2(hEvent); }

SIMGPU_API cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return api_call("cuEventElapsedTime", kNeedsInit,
                  [&](Lock& lock) -> CUresult { return elapsed(lock, pMilliseconds, hStart, hEnd); });
}
SIMGPU_API cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return api_call("cuEventElapsedTime", kNeedsInit,
                  [&](Lock& lock) -> CUresult { return elapsed(lock, pMilliseconds, hStart, hEnd); });
}
