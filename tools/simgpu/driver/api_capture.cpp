// Stream capture: begin, end, state, dependencies, thread modes.
#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/capture.h"

using namespace simgpu::driver;

namespace {
struct Target {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
};
CUresult resolve(CUstream handle, Target& out) { return resolve_stream(handle, out.stream, out.context); }

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (!stream.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// Queries never break a capture.
CUresult info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** dependencies, const CUgraphEdgeData** data, size_t* count) {
  SIMGPU_REQUIRE(status, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!data || dependencies, CUDA_ERROR_INVALID_VALUE);
  Target t;
  SIMGPU_TRY(resolve(handle, t));
  SIMGPU_TRY(legacy_conflict(*t.stream));
  *status = status_of(*t.stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  Capture& capture = *t.stream->capture;
  CaptureStream& member = capture.streams[t.stream.get()];
  if (dependencies && !data) {
    for (const Edge& edge : member.dependencies)
      SIMGPU_REQUIRE(is_default(edge.data), CUDA_ERROR_LOSSY_QUERY);
  }
  if (id) *id = capture.id;
  if (graph) *graph = handle_of<CUgraph>(*capture.graph);
  member.handles.clear();
  member.data.clear();
  for (const Edge& edge : member.dependencies) {
    member.handles.push_back(handle_of<CUgraphNode>(*edge.node));
    member.data.push_back(edge.data);
  }
  if (dependencies) *dependencies = member.handles.data();
  if (data) *data = member.data.data();
  if (count) *count = member.handles.size();
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                             size_t count, unsigned flags) {
  Target t;
  SIMGPU_TRY(resolve(handle, t));
  SIMGPU_REQUIRE(flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES || flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES,
                 CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(t.stream->capture, CUDA_ERROR_ILLEGAL_STATE);
  Capture& capture = *t.stream->capture;
  SIMGPU_REQUIRE(!capture.invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  std::vector<Edge> edges;
  SIMGPU_TRY(read_dependencies(*capture.graph, nodes, data, count, edges));
  std::vector<Edge>& own = capture.streams[t.stream.get()].dependencies;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    own = std::move(edges);
    return CUDA_SUCCESS;
  }
  for (const Edge& edge : edges) {
    bool known = false;
    for (Edge& old : own) known |= old.node == edge.node;
    if (!known) own.push_back(edge);
  }
  return CUDA_SUCCESS;
}

CUresult begin(CUstream handle, CUstreamCaptureMode mode) {
  Target t;
  SIMGPU_TRY(resolve(handle, t));
  return begin_capture(t.stream, mode, nullptr, {});
}
}  // namespace

SIMGPU_API cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return api_call("cuStreamBeginCapture", kNeedsInit,
                  [&](Lock&) -> CUresult { return begin(hStream, mode); });
}
SIMGPU_API cuStreamBeginCapture(CUstream hStream) {
  return api_call("cuStreamBeginCapture", kNeedsInit,
                  [&](Lock&) -> CUresult { return begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL); });
}

SIMGPU_API cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                       const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                       CUstreamCaptureMode mode) {
  return api_call("cuStreamBeginCaptureToGraph", kNeedsInit, [&](Lock&) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    Graph* graph = lookup<Graph>(hGraph);
    SIMGPU_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    std::vector<Edge> edges;
    SIMGPU_TRY(read_dependencies(*graph, dependencies, dependencyData, numDependencies, edges));
    return begin_capture(t.stream, mode, shared(graph), edges);
  });
}

SIMGPU_API cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return api_call("cuStreamEndCapture", kNeedsInit, [&](Lock&) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    return end_capture(t.stream, phGraph);
  });
}

SIMGPU_API cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return api_call("cuStreamIsCapturing", kNeedsInit, [&](Lock&) -> CUresult {
    return info(hStream, captureStatus, nullptr, nullptr, nullptr, nullptr, nullptr);
  });
}

SIMGPU_API cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                  cuuint64_t* id_out) {
  return api_call("cuStreamGetCaptureInfo", kNeedsInit, [&](Lock&) -> CUresult {
    return info(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr);
  });
}
SIMGPU_API cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t* id_out, CUgraph* graph_out,
                                     const CUgraphNode** dependencies_out, size_t* numDependencies_out) {
  return api_call("cuStreamGetCaptureInfo", kNeedsInit, [&](Lock&) -> CUresult {
    return info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr,
                numDependencies_out);
  });
}
SIMGPU_API cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t* id_out, CUgraph* graph_out,
                                     const CUgraphNode** dependencies_out,
                                     const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  return api_call("cuStreamGetCaptureInfo", kNeedsInit, [&](Lock&) -> CUresult {
    return info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                numDependencies_out);
  });
}

SIMGPU_API cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                             size_t numDependencies, unsigned int flags) {
  return api_call("cuStreamUpdateCaptureDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return update_dependencies(hStream, dependencies, nullptr, numDependencies, flags);
  });
}
SIMGPU_API cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                                const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                unsigned int flags) {
  return api_call("cuStreamUpdateCaptureDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return update_dependencies(hStream, dependencies, dependencyData, numDependencies, flags);
  });
}

SIMGPU_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return api_call("cuThreadExchangeStreamCaptureMode", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(mode && unsigned(*mode) <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    std::swap(*mode, thread_state().capture_mode);
    return CUDA_SUCCESS;
  });
}
