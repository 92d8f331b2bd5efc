// Stream capture: one Capture per sequence, from cuStreamBeginCapture to cuStreamEndCapture; the streams that
// take part point to it. Engine mutex held. Rules and codes (900 to 908) follow cuda.h and the programming
// guide: an operation that is invalid during capture also invalidates the captures it conflicts with.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/core/graph.h"

namespace simgpu::driver {

struct CaptureStream {
  std::shared_ptr<Stream> stream;
  std::vector<Edge> dependencies;  // what the next captured node will depend on
  // What GetCaptureInfo hands out; valid until the next call on the stream.
  std::vector<CUgraphNode> handles;
  std::vector<CUgraphEdgeData> data;
};

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  // that began it
  std::shared_ptr<Stream> origin;
  std::shared_ptr<Graph> graph;
  bool own_graph = true;     // made by the capture; false: BeginCaptureToGraph
  bool invalidated = false;  // by an error; waits for EndCapture
  bool ended = false;
  std::map<const Stream*, CaptureStream> streams;
  std::map<uint64_t, std::vector<Edge>> events;  // node sets that events recorded, by Event::capture_node
};

CUresult begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                       std::shared_ptr<Graph> graph, const std::vector<Edge>& dependencies);
CUresult end_capture(const std::shared_ptr<Stream>& stream, CUgraph* out);
void invalidate(Capture& capture);
// A stream goes away while it takes part in a capture.
void capture_stream_destroyed(Stream& stream);
// Captures that a stream of this context began end without a graph.
void drop_captures(const Context& context);
// 906 when the stream is the legacy one and a blocking stream of its context captures.
CUresult legacy_conflict(const Stream& stream);
// Appends a node to a capturing stream; INVALIDATED when its capture is broken.
CUresult capture_node(const std::shared_ptr<Stream>& stream, SpecRef spec, GraphNode** out = nullptr);
// Calls of a capturing stream that do not come as one body: memory nodes for cuMemAllocAsync (fills
// params.dptr) and cuMemFreeAsync, one node for a batch.
CUresult capture_alloc(const std::shared_ptr<Stream>& stream, CUDA_MEM_ALLOC_NODE_PARAMS& params);
CUresult capture_free(const std::shared_ptr<Stream>& stream, CUdeviceptr address);
CUresult capture_batch(const std::shared_ptr<Stream>& stream, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);
// Whether this thread may make a potentially unsafe call now: 900 and broken captures when not.
CUresult unsafe_call();
// Installs the hooks of context.h, once.
void install_capture_hooks();
}  // namespace simgpu::driver
