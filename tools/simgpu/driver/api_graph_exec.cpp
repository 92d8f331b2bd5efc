// Executable graphs: instantiation, launch, upload, updates of the whole and of single nodes.
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/capture.h"
#include "tools/simgpu/driver/core/graph_exec.h"
#include "tools/simgpu/driver/core/graph_spec.h"

using namespace simgpu::driver;

namespace {
struct Target {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
};

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags,
                     std::shared_ptr<GraphExec>& exec, GraphNode*& culprit, CUgraphInstantiateResult& why) {
  culprit = nullptr;
  why = CUDA_GRAPH_INSTANTIATE_ERROR;
  SIMGPU_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
  Graph* graph = lookup<Graph>(handle);
  SIMGPU_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(unsafe_call());
  SIMGPU_TRY(instantiate_graph(*graph, flags, exec, culprit, why));
  if (const Context* context = current_context()) {
    const double per_node = context->device->profile->graph_instantiate_node_ns.value;
    charge_host(uint64_t(per_node * double(exec->node_count)));
  }
  *out = handle_of<CUgraphExec>(*exec);
  return CUDA_SUCCESS;
}

CUresult instantiate_plain(const char* name, CUgraphExec* out, CUgraph graph, unsigned long long flags,
                           CUgraphNode* error_node, char* log, size_t log_size) {
  return api_call(name, kNeedsInit, [&](Lock&) -> CUresult {
    // Upload needs a stream: only InstantiateWithParams has one.
    SIMGPU_REQUIRE(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), CUDA_ERROR_INVALID_VALUE);
    std::shared_ptr<GraphExec> exec;
    GraphNode* culprit;
    CUgraphInstantiateResult why;
    const CUresult result = instantiate(out, graph, flags, exec, culprit, why);
    if (error_node) *error_node = culprit ? handle_of<CUgraphNode>(*culprit) : nullptr;
    if (log && log_size) {
      const char* text = why == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE ? "the graph has a cycle" : "";
      snprintf(log, log_size, "%s", text);
    }
    return result;
  });
}

// Launches and uploads: the executable and a stream that does not capture.
CUresult resolve_launch(CUgraphExec handle, CUstream stream, GraphExec*& exec, Target& t) {
  exec = lookup<GraphExec>(handle);
  SIMGPU_REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(resolve_stream(stream, t.stream, t.context));
  if (!t.stream->capture) return CUDA_SUCCESS;
  SIMGPU_REQUIRE(!t.stream->capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  invalidate(*t.stream->capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult node_of(CUgraphExec exec_handle, CUgraphNode handle, GraphExec*& exec, GraphNode*& node) {
  exec = lookup<GraphExec>(exec_handle);
  SIMGPU_REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
  node = node_in_exec(*exec, handle);
  SIMGPU_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

// The shape of every cuGraphExec*NodeSetParams: `make` builds the new spec, the rules judge it.
template <class Make>
CUresult change(const char* name, CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type,
                const void* params, Make make) {
  return api_call(name, kNeedsInit, [&](Lock&) -> CUresult {
    GraphExec* exec;
    GraphNode* node;
    SIMGPU_TRY(node_of(exec_handle, handle, exec, node));
    SIMGPU_REQUIRE(params && node->type() == type, CUDA_ERROR_INVALID_VALUE);
    SpecRef spec;
    SIMGPU_TRY(make(*node, spec));
    SIMGPU_REQUIRE(check_change(*node->spec, *spec, false, false) == CU_GRAPH_EXEC_UPDATE_SUCCESS,
                   CUDA_ERROR_INVALID_VALUE);
    node->spec = std::move(spec);
    if (const Context* context = current_context())
      charge_host(uint64_t(context->device->profile->graph_patch_node_ns.value));
    return CUDA_SUCCESS;
  });
}

CUresult change_child(CUgraphExec exec_handle, CUgraphNode handle, CUgraph graph_handle) {
  GraphExec* exec;
  GraphNode* node;
  SIMGPU_TRY(node_of(exec_handle, handle, exec, node));
  Graph* graph = lookup<Graph>(graph_handle);
  SIMGPU_REQUIRE(graph && node->type() == CU_GRAPH_NODE_TYPE_GRAPH, CUDA_ERROR_INVALID_VALUE);
  return update_child(*exec, *node, *graph) == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                                            : CUDA_ERROR_INVALID_VALUE;
}

CUresult update(CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo& info) {
  info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  GraphExec* exec = lookup<GraphExec>(exec_handle);
  Graph* graph = lookup<Graph>(graph_handle);
  SIMGPU_REQUIRE(exec && graph && !graph->captures, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!graph->parent_node || graph->parent_node->spec->as<ChildPart>().ownership ==
                                            CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE,
                 CUDA_ERROR_INVALID_VALUE);
  GraphNode *error_node, *error_from;
  info.result = update_graph(*exec, *graph, error_node, error_from);
  if (error_node) info.errorNode = handle_of<CUgraphNode>(*error_node);
  if (error_from) info.errorFromNode = handle_of<CUgraphNode>(*error_from);
  return info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

bool can_be_disabled(const GraphNode& node) {
  return node.type() == CU_GRAPH_NODE_TYPE_KERNEL || node.type() == CU_GRAPH_NODE_TYPE_MEMCPY ||
         node.type() == CU_GRAPH_NODE_TYPE_MEMSET;
}

CUDA_KERNEL_NODE_PARAMS_v2 widened(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  CUDA_KERNEL_NODE_PARAMS_v2 out = {};
  memcpy(&out, &p, sizeof p);
  return out;
}
}  // namespace

SIMGPU_API cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
  return instantiate_plain("cuGraphInstantiate", phGraphExec, hGraph, flags, nullptr, nullptr, 0);
}
SIMGPU_API cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                              char* logBuffer, size_t bufferSize) {
  return instantiate_plain("cuGraphInstantiate", phGraphExec, hGraph, 0, phErrorNode, logBuffer, bufferSize);
}
SIMGPU_API cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                 char* logBuffer, size_t bufferSize) {
  return instantiate_plain("cuGraphInstantiate", phGraphExec, hGraph, 0, phErrorNode, logBuffer, bufferSize);
}
SIMGPU_API cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                        CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  return api_call("cuGraphInstantiateWithParams", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(instantiateParams, CUDA_ERROR_INVALID_VALUE);
    CUDA_GRAPH_INSTANTIATE_PARAMS& p = *instantiateParams;
    std::shared_ptr<GraphExec> exec;
    GraphNode* culprit;
    const CUresult result = instantiate(phGraphExec, hGraph, p.flags, exec, culprit, p.result_out);
    p.hErrNode_out = culprit ? handle_of<CUgraphNode>(*culprit) : nullptr;
    if (result != CUDA_SUCCESS || !(p.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) return result;
    Target t;
    GraphExec* same_exec;
    CUresult uploaded = resolve_launch(*phGraphExec, p.hUploadStream, same_exec, t);
    if (uploaded == CUDA_SUCCESS) uploaded = upload_graph(lock, *exec, t.stream);
    if (uploaded == CUDA_SUCCESS) return CUDA_SUCCESS;
    if (auto source = exec->source.lock(); source && source->executables) --source->executables;
    drop_handle(*exec);
    *phGraphExec = nullptr;
    p.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    return uploaded;
  });
}

SIMGPU_API cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  return api_call("cuGraphExecGetFlags", kNeedsInit, [&](Lock&) -> CUresult {
    GraphExec* exec = lookup<GraphExec>(hGraphExec);
    SIMGPU_REQUIRE(exec && flags, CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphExecDestroy(CUgraphExec hGraphExec) {
  return api_call("cuGraphExecDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    GraphExec* exec = lookup<GraphExec>(hGraphExec);
    SIMGPU_REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    auto keep = shared(exec);
    if (auto source = exec->source.lock(); source && source->executables) --source->executables;
    drop_handle(*exec);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  return api_call("cuGraphLaunch", kNeedsInit, [&](Lock& lock) -> CUresult {
    GraphExec* exec;
    Target t;
    SIMGPU_TRY(resolve_launch(hGraphExec, hStream, exec, t));
    SIMGPU_TRY(fault_point("graph_launch", CUDA_ERROR_LAUNCH_FAILED));
    return launch_graph(lock, *exec, t.stream);
  });
}
SIMGPU_API cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  return api_call("cuGraphUpload", kNeedsInit, [&](Lock& lock) -> CUresult {
    GraphExec* exec;
    Target t;
    SIMGPU_TRY(resolve_launch(hGraphExec, hStream, exec, t));
    return upload_graph(lock, *exec, t.stream);
  });
}

SIMGPU_API cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                CUgraphExecUpdateResultInfo* resultInfo) {
  return api_call("cuGraphExecUpdate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(resultInfo, CUDA_ERROR_INVALID_VALUE);
    return update(hGraphExec, hGraph, *resultInfo);
  });
}
SIMGPU_API cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                             CUgraphExecUpdateResult* updateResult_out) {
  return api_call("cuGraphExecUpdate", kNeedsInit, [&](Lock&) -> CUresult {
    CUgraphExecUpdateResultInfo info;
    const CUresult result = update(hGraphExec, hGraph, info);
    if (hErrorNode_out) *hErrorNode_out = info.errorNode;
    if (updateResult_out) *updateResult_out = info.result;
    return result;
  });
}

// --- single nodes ---
SIMGPU_API cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return change(
      "cuGraphExecKernelNodeSetParams", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams,
      [&](GraphNode& node, SpecRef& spec) { return kernel_spec(*nodeParams, node.spec.get(), spec); });
}
SIMGPU_API cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return change("cuGraphExecKernelNodeSetParams", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams,
                [&](GraphNode& node, SpecRef& spec) {
                  return kernel_spec(widened(*nodeParams), node.spec.get(), spec);
                });
}
SIMGPU_API cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  return change("cuGraphExecMemcpyNodeSetParams", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY, copyParams,
                [&](GraphNode&, SpecRef& spec) { return memcpy_spec(*copyParams, ctx, spec); });
}
SIMGPU_API cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  return change("cuGraphExecMemsetNodeSetParams", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET, memsetParams,
                [&](GraphNode&, SpecRef& spec) { return memset_spec(*memsetParams, ctx, spec); });
}
SIMGPU_API cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return change("cuGraphExecHostNodeSetParams", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams,
                [&](GraphNode&, SpecRef& spec) { return host_spec(*nodeParams, spec); });
}
SIMGPU_API cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return change("cuGraphExecBatchMemOpNodeSetParams", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                nodeParams, [&](GraphNode&, SpecRef& spec) { return batch_spec(*nodeParams, spec); });
}
SIMGPU_API cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return change(
      "cuGraphExecEventRecordNodeSetEvent", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event,
      [&](GraphNode&, SpecRef& spec) { return event_spec(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, spec); });
}
SIMGPU_API cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return change(
      "cuGraphExecEventWaitNodeSetEvent", hGraphExec, hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event,
      [&](GraphNode&, SpecRef& spec) { return event_spec(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, spec); });
}
SIMGPU_API cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  return api_call("cuGraphExecChildGraphNodeSetParams", kNeedsInit,
                  [&](Lock&) -> CUresult { return change_child(hGraphExec, hNode, childGraph); });
}
SIMGPU_API cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* p) {
  if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return api_call("cuGraphExecNodeSetParams", kNeedsInit,
                    [&](Lock&) -> CUresult { return change_child(hGraphExec, hNode, p->graph.graph); });
  }
  return change("cuGraphExecNodeSetParams", hGraphExec, hNode, p ? p->type : CU_GRAPH_NODE_TYPE_EMPTY, p,
                [&](GraphNode& node, SpecRef& spec) -> CUresult {
                  SIMGPU_REQUIRE(
                      p->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && p->type != CU_GRAPH_NODE_TYPE_MEM_FREE,
                      CUDA_ERROR_NOT_SUPPORTED);
                  return generic_spec(*p, node.spec.get(), spec);
                });
}

SIMGPU_API cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  return api_call("cuGraphNodeSetEnabled", kNeedsInit, [&](Lock&) -> CUresult {
    GraphExec* exec;
    GraphNode* node;
    SIMGPU_TRY(node_of(hGraphExec, hNode, exec, node));
    SIMGPU_REQUIRE(can_be_disabled(*node), CUDA_ERROR_INVALID_VALUE);
    node->enabled = isEnabled != 0;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
  return api_call("cuGraphNodeGetEnabled", kNeedsInit, [&](Lock&) -> CUresult {
    GraphExec* exec;
    GraphNode* node;
    SIMGPU_TRY(node_of(hGraphExec, hNode, exec, node));
    SIMGPU_REQUIRE(isEnabled && can_be_disabled(*node), CUDA_ERROR_INVALID_VALUE);
    *isEnabled = node->enabled;
    return CUDA_SUCCESS;
  });
}
