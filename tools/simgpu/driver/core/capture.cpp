#include "tools/simgpu/driver/core/capture.h"

#include <algorithm>
#include <unordered_set>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/graph_memory.h"
#include "tools/simgpu/driver/core/graph_spec.h"
#include "tools/simgpu/driver/core/hooks.h"

namespace simgpu::driver {
namespace {
std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* list = new std::vector<std::shared_ptr<Capture>>;
  return *list;
}
uint64_t next_capture_id() {
  static uint64_t next = 1;
  return next++;
}

// Streams leave, the graph goes to the caller or away.
void finish(Capture& capture, bool keep_graph) {
  capture.ended = true;
  --capture.graph->captures;
  for (auto& [key, member] : capture.streams) member.stream->capture.reset();
  capture.streams.clear();
  capture.events.clear();
  capture.origin.reset();
  if (!keep_graph && capture.own_graph) destroy_graph(*capture.graph);
  capture.graph.reset();
  auto& list = captures();
  list.erase(std::remove_if(list.begin(), list.end(), [&](const auto& c) { return c.get() == &capture; }),
             list.end());
}

void add_dependencies(CaptureStream& member, const std::vector<Edge>& edges) {
  for (const Edge& edge : edges) {
    const bool known = std::any_of(member.dependencies.begin(), member.dependencies.end(),
                                   [&](const Edge& e) { return e.node == edge.node; });
    if (!known) member.dependencies.push_back(edge);
  }
}

bool conflicts_with(const Capture& capture, CUstreamCaptureMode thread_mode, uint64_t thread) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == thread) return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult hook_submit(Lock&, const std::shared_ptr<Stream>& stream, std::shared_ptr<const OpBody> body) {
  Capture& capture = *stream->capture;
  SIMGPU_REQUIRE(!capture.invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  SpecRef spec;
  const CUresult result = captured_spec(*stream, std::move(body), spec);
  if (result != CUDA_SUCCESS) {
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) invalidate(capture);
    return result;
  }
  return capture_node(stream, std::move(spec));
}

CUresult hook_record(Lock&, const std::shared_ptr<Stream>& stream, Event& event, unsigned flags,
                     bool& handled) {
  handled = true;
  if (!stream->capture) {
    SIMGPU_REQUIRE(!(flags & CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    handled = false;
    return CUDA_SUCCESS;
  }
  auto capture = stream->capture;
  SIMGPU_REQUIRE(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  if (flags & CU_EVENT_RECORD_EXTERNAL) {
    SpecRef spec;
    SIMGPU_TRY(event_spec(CU_GRAPH_NODE_TYPE_EVENT_RECORD, handle_of<CUevent>(event), spec));
    return capture_node(stream, std::move(spec));
  }
  if (event.flags & CU_EVENT_INTERPROCESS) {
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  event.capture = capture;
  event.capture_node = next_object_id();
  event.record.reset();
  event.recorded = true;
  capture->events[event.capture_node] = capture->streams[stream.get()].dependencies;
  return CUDA_SUCCESS;
}

CUresult hook_wait(Lock&, const std::shared_ptr<Stream>& stream, Event& event, unsigned flags,
                   bool& handled) {
  handled = true;
  auto mine = stream->capture;
  auto theirs = event.capture;
  if (mine && mine->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!mine) {
    SIMGPU_REQUIRE(!(flags & CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    if (!theirs) {
      handled = false;
      return CUDA_SUCCESS;
    }
    // An idle stream that waits for a capture joins it; there is nothing to join once it is broken or over.
    SIMGPU_REQUIRE(!theirs->ended && !theirs->invalidated, CUDA_ERROR_INVALID_VALUE);
    if (stream->legacy) {
      SIMGPU_TRY(legacy_conflict(*stream));
      invalidate(*theirs);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CaptureStream& member = theirs->streams[stream.get()];
    member.stream = stream;
    stream->capture = theirs;
    add_dependencies(member, theirs->events[event.capture_node]);
    return CUDA_SUCCESS;
  }
  if (theirs == mine) {
    add_dependencies(mine->streams[stream.get()], mine->events[event.capture_node]);
    return CUDA_SUCCESS;
  }
  if (flags & CU_EVENT_WAIT_EXTERNAL) {
    SpecRef spec;
    SIMGPU_TRY(event_spec(CU_GRAPH_NODE_TYPE_WAIT_EVENT, handle_of<CUevent>(event), spec));
    return capture_node(stream, std::move(spec));
  }
  if (theirs && !theirs->ended && !theirs->invalidated) {
    invalidate(*mine);
    invalidate(*theirs);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!theirs && !event.recorded && !event.ipc) return CUDA_SUCCESS;  // nothing to depend on
  invalidate(*mine);
  return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

CUresult hook_check(CaptureQuestion question, Context* context, Stream* stream, Event* event) {
  switch (question) {
    case CaptureQuestion::stream_sync:
      if (stream && stream->capture) {
        if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        invalidate(*stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      }
      if (stream) SIMGPU_TRY(hook_check(CaptureQuestion::legacy_use, context, stream, nullptr));
      return unsafe_call();
    case CaptureQuestion::context_sync: {
      bool any = false;
      for (const auto& capture : std::vector<std::shared_ptr<Capture>>(captures())) {
        for (const auto& [key, member] : capture->streams) {
          if (member.stream->context.lock().get() != context) continue;
          invalidate(*capture);
          any = true;
          break;
        }
      }
      if (any) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      return unsafe_call();
    }
    case CaptureQuestion::legacy_use: {
      if (!stream || !stream->legacy) return CUDA_SUCCESS;
      const CUresult conflict = legacy_conflict(*stream);
      if (conflict == CUDA_SUCCESS) return CUDA_SUCCESS;
      for (const auto& capture : captures()) {
        for (const auto& [key, member] : capture->streams) {
          if (member.stream->blocking() && member.stream->context.lock() == stream->context.lock())
            capture->invalidated = true;
        }
      }
      return conflict;
    }
    case CaptureQuestion::unsafe_call:
      return unsafe_call();
    case CaptureQuestion::event_query:
      if (event && event->capture) {
        if (!event->capture->ended) invalidate(*event->capture);
        return CUDA_ERROR_CAPTURED_EVENT;
      }
      return unsafe_call();
  }
  return CUDA_SUCCESS;
}
}  // namespace

void invalidate(Capture& capture) { capture.invalidated = true; }

CUresult unsafe_call() {
  if (captures().empty()) return CUDA_SUCCESS;
  const ThreadState& thread = thread_state();
  bool prohibited = false;
  for (const auto& capture : captures()) {
    if (!conflicts_with(*capture, thread.capture_mode, thread.id)) continue;
    invalidate(*capture);
    prohibited = true;
  }
  return prohibited ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult legacy_conflict(const Stream& stream) {
  if (!stream.legacy || captures().empty()) return CUDA_SUCCESS;
  const auto context = stream.context.lock();
  for (const auto& capture : captures()) {
    for (const auto& [key, member] : capture->streams) {
      if (member.stream->blocking() && member.stream->context.lock() == context)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return CUDA_SUCCESS;
}

CUresult capture_node(const std::shared_ptr<Stream>& stream, SpecRef spec, GraphNode** out) {
  Capture& capture = *stream->capture;
  SIMGPU_REQUIRE(!capture.invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CaptureStream& member = capture.streams[stream.get()];
  GraphNode* node = add_node(*capture.graph, std::move(spec), member.dependencies);
  member.dependencies.assign(1, Edge{node, {}});
  if (out) *out = node;
  return CUDA_SUCCESS;
}

CUresult capture_alloc(const std::shared_ptr<Stream>& stream, CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  SIMGPU_REQUIRE(!stream->capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  SpecRef spec;
  SIMGPU_TRY(alloc_spec(*stream->capture->graph, params, spec));
  return capture_node(stream, std::move(spec));
}
CUresult capture_free(const std::shared_ptr<Stream>& stream, CUdeviceptr address) {
  SIMGPU_REQUIRE(!stream->capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  SpecRef spec;
  SIMGPU_TRY(free_spec(*stream->capture->graph, address, spec));
  return capture_node(stream, std::move(spec));
}
CUresult capture_batch(const std::shared_ptr<Stream>& stream, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  SIMGPU_REQUIRE(!stream->capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  SpecRef spec;
  SIMGPU_TRY(batch_spec(params, spec));
  return capture_node(stream, std::move(spec));
}

CUresult begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                       std::shared_ptr<Graph> graph, const std::vector<Edge>& dependencies) {
  SIMGPU_REQUIRE(unsigned(mode) <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  SIMGPU_REQUIRE(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
  auto capture = std::make_shared<Capture>();
  capture->id = next_capture_id();
  capture->mode = mode;
  capture->thread = thread_state().id;
  capture->origin = stream;
  capture->own_graph = graph == nullptr;
  capture->graph = graph ? std::move(graph) : create_graph();
  ++capture->graph->captures;
  capture->streams[stream.get()] = CaptureStream{stream, dependencies, {}, {}};
  stream->capture = capture;
  captures().push_back(capture);
  return CUDA_SUCCESS;
}

CUresult end_capture(const std::shared_ptr<Stream>& stream, CUgraph* out) {
  SIMGPU_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
  auto capture = stream->capture;
  SIMGPU_REQUIRE(capture, CUDA_ERROR_ILLEGAL_STATE);
  SIMGPU_REQUIRE(capture->origin == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  SIMGPU_REQUIRE(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == thread_state().id,
                 CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  *out = nullptr;
  if (capture->invalidated) {
    finish(*capture, false);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  // Joined: what the other streams did last is among the ancestors of what the origin did last.
  std::unordered_set<const GraphNode*> reached;
  std::vector<const GraphNode*> open;
  for (const Edge& edge : capture->streams[stream.get()].dependencies) open.push_back(edge.node);
  if (capture->streams.size() > 1) {
    while (!open.empty()) {
      const GraphNode* node = open.back();
      open.pop_back();
      if (!reached.insert(node).second) continue;
      for (const Edge& edge : node->dependencies) open.push_back(edge.node);
    }
  }
  for (const auto& [key, member] : capture->streams) {
    if (key == stream.get()) continue;
    for (const Edge& edge : member.dependencies) {
      if (reached.count(edge.node)) continue;
      finish(*capture, false);
      return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
  }
  *out = handle_of<CUgraph>(*capture->graph);
  finish(*capture, true);
  return CUDA_SUCCESS;
}

void capture_stream_destroyed(Stream& stream) {
  auto capture = stream.capture;
  if (!capture) return;
  // Without its origin a capture can never be ended; a forked stream merely cannot join any more.
  if (capture->origin.get() == &stream) finish(*capture, false);
}

void drop_captures(const Context& context) {
  for (const auto& capture : std::vector<std::shared_ptr<Capture>>(captures())) {
    if (capture->origin->context.lock().get() == &context) finish(*capture, false);
  }
}

void install_capture_hooks() {
  g_capture_hook = hook_submit;
  g_capture_check = hook_check;
  g_record_event_hook = hook_record;
  g_wait_event_hook = hook_wait;
  g_capture_alloc = capture_alloc;
  g_capture_free = capture_free;
  g_free_graph_memory = [](Lock& lock, const std::shared_ptr<Stream>& stream, CUdeviceptr address,
                           bool& handled) -> CUresult {
    const GraphAllocationRef memory = graph_allocation_at(address);
    handled = memory != nullptr;
    return memory ? free_graph_memory(lock, memory, stream) : CUDA_SUCCESS;
  };
}

namespace {
[[maybe_unused]] const bool g_installed = (install_capture_hooks(), true);
}  // namespace
}  // namespace simgpu::driver
