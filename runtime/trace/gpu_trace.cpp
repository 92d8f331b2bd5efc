#include "runtime/trace/gpu_trace.h"

#include <stdlib.h>

#include <algorithm>
#include <string>

#include "runtime/base/log.h"
#include "runtime/trace/cupti_library.h"
#include "runtime/trace/cupti_records.h"
#include "runtime/trace/format_gpu.h"
#include "runtime/trace/writer.h"

namespace shunt::trace::gpu {

std::atomic<bool> detail::running{false};

namespace {

constexpr size_t kBufferBytes = 1u << 20, kDeviceBufferBytes = 3'200'000;
constexpr uint32_t kMayRefuseBuffers = 27;  // older libraries end the process when they get none
constexpr uint64_t kFlushEveryNs = 1'000'000'000;

// Calls that put work on a device. No others: each record costs the program time.
constexpr CUpti_driver_api_trace_cbid kCalls[] = {
#define BOTH(name) CUPTI_DRIVER_TRACE_CBID_##name, CUPTI_DRIVER_TRACE_CBID_##name##_ptsz
    BOTH(cuLaunchKernel),
    BOTH(cuLaunchKernelEx),
    BOTH(cuLaunchCooperativeKernel),
    BOTH(cuGraphLaunch),
    BOTH(cuMemcpyAsync),
    BOTH(cuMemcpyHtoDAsync_v2),
    BOTH(cuMemcpyDtoHAsync_v2),
    BOTH(cuMemcpyDtoDAsync_v2),
    BOTH(cuMemcpyPeerAsync),
    BOTH(cuMemcpy2DAsync_v2),
    BOTH(cuMemcpy3DAsync_v2),
    BOTH(cuMemsetD8Async),
    BOTH(cuMemsetD16Async),
    BOTH(cuMemsetD32Async),
#undef BOTH
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2,
};

struct State {
  Options options;
  const Cupti* cupti = nullptr;
  Records* records = nullptr;
  std::atomic<bool> started{false};
  std::atomic<uint64_t> flushed_ns{0}, pushed{0}, dropped{0}, refused_buffers{0};
  // CUPTI's buffers, kept for the next request.
  SpinRwLock lock;
  uint8_t* free[1024];
  uint32_t free_count = 0, made = 0, most = 2;
};
std::atomic<State*> g_state{nullptr};

void CUPTIAPI nothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* max_records) {
  State& s = *g_state.load(std::memory_order_acquire);
  *max_records = 0;
  *size = 0;
  *buffer = nullptr;
  bool make = false;
  {
    WriteGuard guard(s.lock);
    if (s.free_count)
      *buffer = s.free[--s.free_count];
    else if (s.made < s.most || s.cupti->version < kMayRefuseBuffers)
      make = true, s.made++;
  }
  if (make) *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferBytes));
  if (*buffer)
    *size = kBufferBytes;
  else
    s.refused_buffers.fetch_add(1, std::memory_order_relaxed);
}

// No exception may go through CUPTI's frames: what writing a record allocates (a new name) can fail.
void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  State& s = *g_state.load(std::memory_order_acquire);
  try {
    if (buffer && valid) s.records->take(buffer, valid);
  } catch (...) {
    s.dropped.fetch_add(1, std::memory_order_relaxed);
  }
  if (!buffer) return;
  {
    WriteGuard guard(s.lock);
    if (s.free_count < std::size(s.free)) {
      s.free[s.free_count++] = buffer;
      return;
    }
    s.made--;
  }
  free(buffer);
}

// Ties CUPTI's stamps to the trace's clock, whatever either of them is.
void write_clock(const Cupti& cupti) {
  uint64_t stamp = 0;
  const uint64_t wall_before = clock::realtime_ns(), before = clock::now_ns();
  if (cupti.cuptiGetTimestamp(&stamp) != CUPTI_SUCCESS || stamp == 0) return;
  const uint64_t after = clock::now_ns(), wall_after = clock::realtime_ns();
  if (auto* r = static_cast<ClockRecord*>(trace::detail::reserve(sizeof(ClockRecord)))) {
    r->header = {static_cast<uint16_t>(RecordType::clock), sizeof(ClockRecord), kClockOfGpu,
                 before + (after - before) / 2, 0};
    r->monotonic_before = before, r->monotonic_after = after;
    r->realtime = stamp, r->boottime = 0, r->tsc = 0;
    trace::detail::commit(sizeof(ClockRecord));
  }
  if (!clock::is_virtual() && (stamp < wall_before || stamp > wall_after))
    SHUNT_LOG_DEBUG(trace, "CUPTI does not stamp with CLOCK_REALTIME (another tool set its clock)");
}

void refuse(Reason reason, const std::string& text) {
  SHUNT_LOG_WARN(trace, "no device times: %s [%s]", text.c_str(), std::string(reason_name(reason)).c_str());
  setting("gpu-trace", "off: " + text, "cupti");
  decide({.feature = Feature::process,
          .action = Action::gpu_trace,
          .reason = reason,
          .outcome = Outcome::declined});
}

uint64_t external_id(Feature feature, uint64_t decision) {
  return (decision & kExternalIdMask) | (static_cast<uint64_t>(feature) + 1) << kExternalFeatureShift;
}

bool subscribe(const Cupti& cupti) {
  CUpti_SubscriberHandle subscriber = nullptr;
  char holder[256] = "";
  CUptiResult result = CUPTI_ERROR_NOT_SUPPORTED;
  if (cupti.subscribe_v2) {
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "shunt";
    params.oldSubscriberName = holder;
    params.oldSubscriberSize = sizeof holder;
    result = cupti.subscribe_v2(&subscriber, nothing, nullptr, &params);
  }
  if (result == CUPTI_ERROR_NOT_SUPPORTED) result = cupti.cuptiSubscribe(&subscriber, nothing, nullptr);
  if (result == CUPTI_SUCCESS) return true;
  holder[sizeof holder - 1] = 0;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    refuse(Reason::cupti_held, std::string("CUPTI belongs to ") + (*holder ? holder : "another profiler") +
                                   "; run without it, or leave --gpu-trace off");
  else
    refuse(Reason::cupti_refused, "cuptiSubscribe answered " + std::to_string(result));
  return false;
}

bool enable(State& s) {
  const Cupti& cupti = *s.cupti;
  // Before any context exists: CUPTI's own memory moves the point at which the program runs out of it.
  size_t pool = std::max<size_t>(3, s.options.buffer_bytes / kDeviceBufferBytes), size = sizeof pool;
  cupti.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &pool);
  uint8_t pinned = s.options.host_pinned;
  size = sizeof pinned;
  const bool in_host =
      pinned && cupti.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, &size,
                                                &pinned) == CUPTI_SUCCESS;
  setting("gpu-trace", s.options.level == Level::node ? "node" : "graph",
          "cupti " + std::to_string(cupti.version));
  setting("cupti-buffers", in_host ? "host-pinned" : "device", pinned ? "memory engine on" : "cupti");
  CUptiResult result = cupti.cuptiActivityRegisterCallbacks(request, complete);
  // External ids need the records of the calls, so the calls come first.
  for (const CUpti_driver_api_trace_cbid call : kCalls)
    cupti.cuptiActivityEnableDriverApi(call, 1);  // one the library does not know stays out
  const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                      CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                      CUPTI_ACTIVITY_KIND_MEMCPY,
                                      CUPTI_ACTIVITY_KIND_MEMCPY2,
                                      CUPTI_ACTIVITY_KIND_MEMSET,
                                      CUPTI_ACTIVITY_KIND_GRAPH_TRACE};
  // A graph is one record or its nodes are: both at once cannot be had.
  for (const CUpti_ActivityKind kind : kinds)
    if (result == CUPTI_SUCCESS &&
        (kind != CUPTI_ACTIVITY_KIND_GRAPH_TRACE || s.options.level == Level::graph))
      result = cupti.cuptiActivityEnable(kind);
  if (result == CUPTI_SUCCESS) return true;
  refuse(Reason::cupti_refused, "cuptiActivityEnable answered " + std::to_string(result));
  return false;
}

void flush(State& s, bool forced) {
  s.cupti->cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  size_t dropped = 0;
  if (s.cupti->cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped)
    s.dropped.fetch_add(dropped, std::memory_order_relaxed);
  write_clock(*s.cupti);
}

}  // namespace

void detail::push(Feature feature, uint64_t decision) {
  State& s = *g_state.load(std::memory_order_acquire);
  s.pushed.fetch_add(1, std::memory_order_relaxed);
  s.cupti->cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2,
                                                  external_id(feature, decision));
}

void detail::pop() {
  uint64_t last;
  g_state.load(std::memory_order_acquire)
      ->cupti->cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &last);
}

void arm(const Options& options) {
  if (options.level == Level::off || g_state.load()) return;
  auto* s = new State();
  s->options = options;
  s->most =
      static_cast<uint32_t>(std::clamp<uint64_t>(options.buffer_bytes / kBufferBytes, 2, std::size(s->free)));
  g_state.store(s, std::memory_order_release);
}

void start() {
  State* s = g_state.load(std::memory_order_acquire);
  if (!s || !active() || s->started.exchange(true)) return;
  std::string problem;
  s->cupti = open_cupti(problem);
  if (!s->cupti) return refuse(Reason::cupti_missing, problem);
  s->records = new Records(*s->cupti);
  if (!subscribe(*s->cupti) || !enable(*s)) return;
  write_clock(*s->cupti);
  decide({.feature = Feature::process, .action = Action::gpu_trace});
  detail::running.store(true, std::memory_order_release);
}

void flush_sometimes() {
  State* s = running() ? g_state.load(std::memory_order_acquire) : nullptr;
  if (!s) return;
  const uint64_t now = clock::monotonic_ns();
  uint64_t last = s->flushed_ns.load(std::memory_order_relaxed);
  if (now - last < kFlushEveryNs || !s->flushed_ns.compare_exchange_strong(last, now)) return;
  if (last) flush(*s, false);
}

void stop() {
  State* s = g_state.load(std::memory_order_acquire);
  if (!s || !detail::running.exchange(false)) return;
  flush(*s, true);
  const Records::Counts counts = s->records->counts();
  counter(string_id("cupti device records"), counts.device);
  counter(string_id("cupti call records"), counts.calls);
  counter(string_id("cupti records lost"), s->dropped.load());
  counter(string_id("cupti records without stamps"), counts.unstamped);
  if (const uint64_t refused = s->refused_buffers.load())
    counter(string_id("cupti buffers refused"), refused);
  if (const uint64_t lost = s->dropped.load())
    SHUNT_LOG_WARN(trace, "CUPTI lost %llu records; raise --gpu-trace-buffers",
                   static_cast<unsigned long long>(lost));
  // Silence is not zero work: profilers are known to lose everything without a word.
  if (counts.device == 0 && (counts.calls || s->pushed.load()))
    SHUNT_LOG_WARN(trace, "CUPTI recorded calls but no device work; device times are missing from the trace");
}

void fork_child() {
  // The parent's subscription is not ours, and CUPTI's locks may be held by threads that do not exist here.
  detail::running.store(false, std::memory_order_relaxed);
}

uint32_t stream_number(void* context, void* stream) {
  uint32_t number = 0;
  if (!running()) return 0;
  const CUptiResult result = g_state.load(std::memory_order_acquire)
                                 ->cupti->cuptiGetStreamIdEx(static_cast<CUcontext>(context),
                                                             static_cast<CUstream>(stream), 0, &number);
  return result == CUPTI_SUCCESS ? number : 0;
}

void issued_with(uint64_t decision, uint64_t leader) {
  if (!running() || decision == leader) return;
  auto* r = static_cast<CounterRecord*>(trace::detail::reserve(sizeof(CounterRecord)));
  if (!r) return;
  r->header = {static_cast<uint16_t>(RecordType::cupti_external), sizeof(CounterRecord), kExternalLeader,
               clock::now_ns(), decision};
  r->value = leader;
  trace::detail::commit(sizeof(CounterRecord));
}

}  // namespace shunt::trace::gpu
