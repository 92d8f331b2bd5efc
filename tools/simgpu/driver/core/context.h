// Contexts, streams and events. Guarded by the engine mutex unless said otherwise; kept alive by shared_ptr
// while work refers to them. A context that caught a device fault is poisoned: `sticky` answers every later
// call.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/core/device.h"
#include "tools/simgpu/driver/core/engine.h"
#include "tools/simgpu/driver/core/handles.h"
#include "tools/simgpu/driver/core/memory.h"

namespace simgpu::driver {

struct ModuleInstance;
struct Capture;  // stream capture in progress: capture.h (graphs)

struct Stream : Object {
  static constexpr Kind kKind = Kind::stream;
  Stream() : Object(Kind::stream) {}
  std::weak_ptr<Context> context;
  int device = 0;
  unsigned flags = 0;  // CU_STREAM_*
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false, per_thread = false;
  bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING) && !legacy; }
  int hardware_queue = -1;           // of the context; -1: one of its own (the legacy stream)
  OpRef tail;                        // last submitted op; null when known complete
  uint32_t pending = 0;              // submitted, not completed
  std::shared_ptr<Capture> capture;  // non-null while capturing (or invalidated and not ended)
  std::map<int, CUstreamAttrValue> attributes;
  bool destroyed = false;
  std::shared_ptr<struct RaceState> race_tail;  // of the last op, once that has completed
};

struct Event : Object {
  static constexpr Kind kKind = Kind::event;
  Event() : Object(Kind::event) {}
  std::weak_ptr<Context> context;
  int device = 0;
  unsigned flags = 0;
  OpRef record;  // the latest record; null when never recorded
  bool recorded = false;
  uint64_t time_ns = 0;              // of the latest completed record
  std::shared_ptr<Capture> capture;  // recorded inside a capture
  uint64_t capture_node = 0;
  std::shared_ptr<void> ipc;  // interprocess events
};

struct Context : Object {
  static constexpr Kind kKind = Kind::context;
  Context() : Object(Kind::context), space(*this) {}
  Device* device = nullptr;
  uint64_t id = 0;
  unsigned flags = 0;
  unsigned api_version = 3020;
  bool primary = false;
  bool destroyed = false;
  std::atomic<CUresult> sticky{CUDA_SUCCESS};
  std::string sticky_text;
  std::set<std::shared_ptr<Stream>> streams;  // created ones
  std::shared_ptr<Stream> legacy;
  std::unordered_map<uint64_t, std::shared_ptr<Stream>> per_thread;  // by ThreadState::id
  std::set<Event*> events;
  std::unordered_map<const void*, std::shared_ptr<ModuleInstance>>
      modules;                                      // library image -> instance (lazily made)
  std::set<std::shared_ptr<Object>> owned_modules;  // cuModuleLoad*
  std::atomic<uint64_t> peers{0};    // ordinals whose contexts' memory is enabled; read by kernels
  std::set<uint64_t> peer_contexts;  // ids of enabled peer contexts
  uint64_t limits[16] = {};
  std::vector<OpRef>
      hardware_queues;  // last op of each; streams share them once there are more streams than queues
  uint32_t next_hardware_queue = 0;
  std::shared_ptr<struct RaceState> race_done;  // everything completed so far
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  ContextSpace space;
  std::string printed;  // device printf not yet on stdout
  std::unordered_map<std::string, std::shared_ptr<void>>
      extras;  // state of api groups (pools, arrays...), by their name
};

// --- current context and handle resolution (engine mutex held) ---
Context* current_context();               // null when none
CUresult require_context(Context*& out);  // INVALID_CONTEXT / CONTEXT_IS_DESTROYED / sticky error
// NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle. Other values give INVALID_HANDLE.
CUresult resolve_stream(CUstream handle, std::shared_ptr<Stream>& out, std::shared_ptr<Context>& context);
std::shared_ptr<Context> create_context(Device& device, unsigned flags, bool primary);
void destroy_context(Lock& lock, Context& context);
std::shared_ptr<Stream> create_stream(Context& context, unsigned flags, int priority);
std::shared_ptr<Stream> per_thread_stream(Context& context);
void poison(Context& context, CUresult error, const std::string& text);

// --- the funnel ---
// Every asynchronous call ends here: orders the body after the stream's earlier work (and the legacy stream's
// rules), or appends it to the graph when the stream is capturing. `op` (may be null) receives the submitted
// op; it stays null in capture.
CUresult submit(Lock& lock, const std::shared_ptr<Stream>& stream, std::shared_ptr<const OpBody> body,
                OpRef* op = nullptr, const std::vector<OpRef>& extra_dependencies = {});
// What a wait for this stream must wait for: its tail, and for the legacy stream the tails of all blocking
// streams.
std::vector<OpRef> stream_targets(const Stream& stream);
std::vector<OpRef> context_targets(const Context& context);
// Host waits. They flush printf, and answer the sticky error or LAUNCH_TIMEOUT for a deadlock.
// `about`: the stream or event waited for, for the timeline's record.
CUresult wait_for(Lock& lock, Context& context, const std::vector<OpRef>& targets,
                  const Object* about = nullptr);
CUresult synchronize_stream(Lock& lock, Stream& stream);
CUresult synchronize_context(Lock& lock, Context& context);
void flush_printf(Context& context);

// Installed by the graph code: appends to the capture; sees every body submitted to a capturing stream.
using CaptureHook = CUresult (*)(Lock&, const std::shared_ptr<Stream>&, std::shared_ptr<const OpBody>);
extern CaptureHook g_capture_hook;
// Installed by the graph code: the error of a call that is not allowed while a capture could be broken by it
// (900, 906 ...). Asked by synchronising and legacy-stream calls; CUDA_SUCCESS when no capture objects.
enum class CaptureQuestion { stream_sync, context_sync, legacy_use, unsafe_call, event_query };
using CaptureCheck = CUresult (*)(CaptureQuestion, Context*, Stream*, Event*);
extern CaptureCheck g_capture_check;
inline CUresult capture_check(CaptureQuestion q, Context* c, Stream* s = nullptr, Event* e = nullptr) {
  return g_capture_check ? g_capture_check(q, c, s, e) : CUDA_SUCCESS;
}

// Installed by the graph and IPC code: see a record or wait before the plain path; `handled` true: `result`
// is the answer.
using EventHook = CUresult (*)(Lock&, const std::shared_ptr<Stream>&, Event&, unsigned flags, bool& handled);
extern EventHook g_record_event_hook, g_wait_event_hook;
// Queries (wait false) or waits for an interprocess event.
extern CUresult (*g_ipc_event_query)(Lock&, Event&, bool wait);

uint64_t next_object_id();
}  // namespace simgpu::driver
