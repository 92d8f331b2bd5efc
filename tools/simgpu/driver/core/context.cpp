#include "tools/simgpu/driver/core/context.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/simgpu/driver/core/capture.h"
#include "tools/simgpu/driver/core/clock.h"
#include "tools/simgpu/driver/core/faults.h"
#include "tools/simgpu/driver/core/graph_memory.h"
#include "tools/simgpu/driver/core/hooks.h"
#include "tools/simgpu/driver/core/host_pages.h"
#include "tools/simgpu/driver/core/ipc.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/module.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/race.h"
#include "tools/simgpu/driver/core/thread_state.h"
#include "tools/simgpu/driver/core/timeline.h"

namespace simgpu::driver {
namespace {
constexpr uint32_t kLaunchQueueDepth =
    1024;  // launches in flight per stream before the host waits, as the hardware's queue does

// How many queues lead to the device: CUDA_DEVICE_MAX_CONNECTIONS, 8 by default.
uint32_t hardware_queue_count(const Device& device) {
  const char* text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const long wanted = text ? atol(text) : 8;
  const long most =
      device.profile->hardware_queues.value >= 1 ? long(device.profile->hardware_queues.value) : 32;
  return uint32_t(std::clamp(wanted, 1l, most));
}
}  // namespace

CaptureHook g_capture_hook = nullptr;
CaptureCheck g_capture_check = nullptr;
EventHook g_record_event_hook = nullptr, g_wait_event_hook = nullptr;
CUresult (*g_ipc_event_query)(Lock&, Event&, bool) = nullptr;

uint64_t next_object_id() {
  static uint64_t next = 1;
  return next++;
}

Context* current_context() {
  ThreadState& state = thread_state();
  return state.contexts.empty() ? nullptr : state.contexts.back().get();
}

CUresult require_context(Context*& out) {
  out = current_context();
  if (!out) return CUDA_ERROR_INVALID_CONTEXT;
  if (out->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return out->sticky.load();
}

CUresult resolve_stream(CUstream handle, std::shared_ptr<Stream>& out, std::shared_ptr<Context>& context) {
  ThreadState& state = thread_state();
  if (handle == nullptr && state.per_thread_depth > 0) handle = CU_STREAM_PER_THREAD;
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    Context* current = nullptr;
    const CUresult result = require_context(current);
    if (result != CUDA_SUCCESS) return result;
    context = shared(current);
    out = handle == CU_STREAM_PER_THREAD ? per_thread_stream(*current) : current->legacy;
    return CUDA_SUCCESS;
  }
  Stream* stream = lookup<Stream>(handle);
  if (!stream || stream->destroyed) return CUDA_ERROR_INVALID_HANDLE;
  context = stream->context.lock();
  if (!context || context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (context->sticky.load() != CUDA_SUCCESS) return context->sticky.load();
  out = shared(stream);
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> create_stream(Context& context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = shared(&context);
  stream->device = context.device->ordinal;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  stream->id = next_object_id();
  if (!context.hardware_queues.empty())
    stream->hardware_queue = int(context.next_hardware_queue++ % context.hardware_queues.size());
  return stream;
}

std::shared_ptr<Stream> per_thread_stream(Context& context) {
  std::shared_ptr<Stream>& stream = context.per_thread[thread_state().id];
  if (!stream) {
    stream = create_stream(context, CU_STREAM_DEFAULT, 0);
    stream->per_thread = true;
    stream->handle = reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
  }
  return stream;
}

std::shared_ptr<Context> create_context(Device& device, unsigned flags, bool primary) {
  auto context = std::make_shared<Context>();
  context->device = &device;
  context->flags = flags;
  context->primary = primary;
  context->id = next_object_id();
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
  make_handle(context);
  platform()->box->attach(device.box_index);
  context->legacy = create_stream(*context, CU_STREAM_DEFAULT, 0);
  context->legacy->legacy = true;
  context->hardware_queues.resize(hardware_queue_count(device));
  context->legacy->handle = reinterpret_cast<uint64_t>(CU_STREAM_LEGACY);
  return context;
}

namespace {
// What the driver's log says for a fault; 0: nothing (a timeout of a wait is no event of the device).
uint32_t xid_of(CUresult error) {
  switch (error) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      return 31;  // memory page fault
    case CUDA_ERROR_ECC_UNCORRECTABLE:
      return 48;
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      return 74;
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
      return 13;  // engine exception
    default:
      return 0;
  }
}
}  // namespace

void destroy_context(Lock& lock, Context& context) {
  auto keep = shared(&context);
  if (context.sticky.load() != CUDA_SUCCESS) Engine::get().abandon(context);
  Engine::get().wait(lock, Engine::get().unfinished(context));
  flush_printf(context);
  if (races_watched()) race_host_synced(context);
  context.destroyed = true;
  drop_captures(context);
  if (context.primary) drop_graph_memory(context.device->ordinal);
  for (const auto& stream : context.streams) {
    stream->destroyed = true;
    drop_handle(*stream);
  }
  context.streams.clear();
  context.per_thread.clear();
  for (Event* event : std::vector<Event*>(context.events.begin(), context.events.end())) drop_handle(*event);
  context.events.clear();
  for (const auto& module : context.owned_modules) {
    release_instance(static_cast<ModuleInstance&>(*module));
    drop_handle(*module);
  }
  context.owned_modules.clear();
  for (auto& [key, instance] : context.modules) release_instance(*instance);
  context.modules.clear();
  context.extras.clear();
  for (const AllocationRef& allocation : MemoryMap::get().of_context(context.id)) {
    MemoryMap::get().erase(allocation->base);
    ipc_forget(*allocation);
    // Work that was given up has left marks nobody will ever wait for.
    if (races_watched()) race_forget(allocation->base, allocation->size);
    if (allocation->kind == MemoryKind::device || allocation->kind == MemoryKind::global) {
      context.device->heap->release(allocation->base);
    } else if (allocation->kind == MemoryKind::pinned || allocation->kind == MemoryKind::managed) {
      unmap_watched_memory(reinterpret_cast<void*>(allocation->base), allocation->host, allocation->size);
    }
  }
  platform()->box->detach(context.device->box_index);
  drop_handle(context);
}

void poison(Context& context, CUresult error, const std::string& text) {
  CUresult expected = CUDA_SUCCESS;
  if (!context.sticky.compare_exchange_strong(expected, error)) return;
  context.sticky_text = text;
  if (const uint32_t xid = xid_of(error)) platform()->box->raise_xid(context.device->box_index, xid);
  if (!text.empty()) log_line(LogLevel::warn, "device %d: %s", context.device->ordinal, text.c_str());
  Engine::get().abandon(context);
}

CUresult submit(Lock& lock, const std::shared_ptr<Stream>& stream, std::shared_ptr<const OpBody> body,
                OpRef* out, const std::vector<OpRef>& extra_dependencies) {
  if (out) out->reset();
  if (stream->capture)
    return g_capture_hook ? g_capture_hook(lock, stream, std::move(body))
                          : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::shared_ptr<Context> context = stream->context.lock();
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (stream->legacy) {
    const CUresult objection = capture_check(CaptureQuestion::legacy_use, context.get(), stream.get());
    if (objection != CUDA_SUCCESS) return objection;
  }
  Engine& engine = Engine::get();
  if (stream->pending >= kLaunchQueueDepth && stream->tail) {
    // Back-pressure: the host goes on when the oldest quarter of the queue is through.
    const uint32_t goal = kLaunchQueueDepth * 3 / 4;
    engine.wait_until(lock, [&] { return stream->pending < goal || context->sticky.load() != CUDA_SUCCESS; });
    if (stream->tail)
      raise_host_clock(std::min(engine.now(), stream->tail->completed ? stream->tail->end_ns : engine.now()));
    if (context->sticky.load() != CUDA_SUCCESS) return context->sticky.load();
  }
  const OpKind kind = body->kind;
  OpRef op = engine.make_op(std::move(body), context, stream);
  op->correlation = current_correlation();
  if (kind == OpKind::kernel || kind == OpKind::graph_begin)
    op->extra_latency_ns = uint64_t(context->device->profile->launch_latency_ns.value);
  engine.depend(*op, stream->tail);
  if (stream->legacy) {
    for (auto it = context->streams.begin(); it != context->streams.end();) {
      const auto& other = *it;
      if (other->blocking()) engine.depend(*op, other->tail);
      it = other->destroyed && !other->tail ? context->streams.erase(it) : std::next(it);
    }
    for (const auto& [thread, other] : context->per_thread) engine.depend(*op, other->tail);
  } else if (stream->blocking()) {
    engine.depend(*op, context->legacy->tail);
  }
  if (races_watched()) {
    race_after_stream(*op, *stream);
    for (const auto& other : context->streams) {
      if (stream->legacy && other->blocking()) race_after_stream(*op, *other);
    }
    for (const auto& [thread, other] : context->per_thread) {
      if (stream->legacy) race_after_stream(*op, *other);
    }
    if (stream->blocking()) race_after_stream(*op, *context->legacy);
  }
  for (const OpRef& dependency : extra_dependencies) engine.depend(*op, dependency);
  if (stream->hardware_queue >= 0) {
    OpRef& last = context->hardware_queues[size_t(stream->hardware_queue)];
    // Behind its own stream it is ordered anyway; behind another stream's work it waits for that to be
    // issued.
    if (last && last->stream != stream) engine.depend_on_start(*op, last);
    last = op;
  }
  stream->tail = op;
  ++stream->pending;
  engine.link(op);
  if (out) *out = std::move(op);
  return CUDA_SUCCESS;
}

std::vector<OpRef> stream_targets(const Stream& stream) {
  std::vector<OpRef> targets;
  if (stream.tail) targets.push_back(stream.tail);
  if (stream.legacy) {
    if (auto context = stream.context.lock()) {
      for (const auto& other : context->streams) {
        if (other->blocking() && other->tail) targets.push_back(other->tail);
      }
      for (const auto& [thread, other] : context->per_thread) {
        if (other->tail) targets.push_back(other->tail);
      }
    }
  }
  return targets;
}

std::vector<OpRef> context_targets(const Context& context) { return Engine::get().unfinished(context); }

CUresult wait_for(Lock& lock, Context& context, const std::vector<OpRef>& targets, const Object* about) {
  auto keep = shared(&context);
  const uint64_t start_ns = host_now();
  const Engine::Wait result = Engine::get().wait(lock, targets);
  flush_printf(context);
  if (result == Engine::Wait::deadlock) poison(context, CUDA_ERROR_LAUNCH_TIMEOUT, "");
  if (g_after_wait) g_after_wait();
  if (timeline_active()) {
    Record record;
    record.kind = "sync";
    record.name = "wait";
    record.start_ns = start_ns;
    record.end_ns = host_now();
    record.device = context.device->ordinal;
    record.context_id = context.id;
    record.thread = thread_state().id;
    record.correlation = current_correlation();
    if (about && about->kind == Kind::stream) record.stream_id = static_cast<const Stream*>(about)->id;
    record.handle = about ? about->handle : 0;
    timeline_emit(record);
  }
  return context.sticky.load();
}

CUresult synchronize_stream(Lock& lock, Stream& stream) {
  auto context = stream.context.lock();
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const CUresult objection = capture_check(CaptureQuestion::stream_sync, context.get(), &stream);
  if (objection != CUDA_SUCCESS) return objection;
  const CUresult result = wait_for(lock, *context, stream_targets(stream), &stream);
  if (races_watched()) race_host_synced(stream);
  return result;
}

CUresult synchronize_context(Lock& lock, Context& context) {
  const CUresult objection = capture_check(CaptureQuestion::context_sync, &context);
  if (objection != CUDA_SUCCESS) return objection;
  const CUresult result = wait_for(lock, context, context_targets(context));
  if (races_watched()) race_host_synced(context);
  return result;
}

// Device printf reaches stdout at synchronisations, in the order the device produced it.
void flush_printf(Context& context) {
  if (context.printed.empty()) return;
  std::string text;
  text.swap(context.printed);
  fwrite(text.data(), 1, text.size(), stdout);
  fflush(stdout);
}
}  // namespace simgpu::driver
