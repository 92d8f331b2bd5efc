// Graph nodes: adding them, reading and changing their parameters and attributes.
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/graph_memory.h"
#include "tools/simgpu/driver/core/graph_spec.h"

using namespace simgpu::driver;

namespace {
struct NewNode {
  Graph* graph = nullptr;
  std::vector<Edge> edges;
};
CUresult prepare(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
                 const CUgraphEdgeData* data, size_t count, NewNode& node) {
  SIMGPU_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
  node.graph = lookup<Graph>(handle);
  SIMGPU_REQUIRE(node.graph, CUDA_ERROR_INVALID_VALUE);
  return read_dependencies(*node.graph, dependencies, data, count, node.edges);
}

// The shape of every cuGraphAdd*Node: handles, then `make` for the spec.
template <class Make>
CUresult add(const char* name, CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
             const CUgraphEdgeData* data, size_t count, Make make) {
  return api_call(name, kNeedsInit, [&](Lock&) -> CUresult {
    NewNode node;
    SIMGPU_TRY(prepare(out, graph, dependencies, data, count, node));
    SpecRef spec;
    SIMGPU_TRY(make(*node.graph, spec));
    *out = handle_of<CUgraphNode>(*add_node(*node.graph, std::move(spec), node.edges));
    return CUDA_SUCCESS;
  });
}

// Child graphs are copied, or moved when asked to.
CUresult child(Graph& parent, CUgraph handle, CUgraphChildGraphNodeOwnership ownership, SpecRef& out) {
  Graph* graph = lookup<Graph>(handle);
  SIMGPU_REQUIRE(graph && graph != &parent, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(
      ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE || ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
      CUDA_ERROR_INVALID_VALUE);
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    SIMGPU_REQUIRE(!graph->parent_node && !graph->captures && !graph->executables, CUDA_ERROR_INVALID_VALUE);
    for (GraphNode* up = parent.parent_node; up; up = up->graph->parent_node)
      SIMGPU_REQUIRE(up->graph != graph, CUDA_ERROR_INVALID_VALUE);
    out = child_spec(shared(graph), ownership);
    return CUDA_SUCCESS;
  }
  SIMGPU_REQUIRE(!graph->has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
  out = child_spec(clone_graph(*graph, false), ownership);
  return CUDA_SUCCESS;
}

CUresult node_of_type(CUgraphNode handle, CUgraphNodeType type, GraphNode*& out) {
  out = lookup<GraphNode>(handle);
  SIMGPU_REQUIRE(out && out->graph && out->type() == type, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

template <class Read>
CUresult get(const char* name, CUgraphNode handle, CUgraphNodeType type, const void* out, Read read) {
  return api_call(name, kNeedsInit, [&](Lock&) -> CUresult {
    GraphNode* node;
    SIMGPU_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(node_of_type(handle, type, node));
    return read(*node->spec);
  });
}
template <class Make>
CUresult set(const char* name, CUgraphNode handle, CUgraphNodeType type, const void* params, Make make) {
  return api_call(name, kNeedsInit, [&](Lock&) -> CUresult {
    GraphNode* node;
    SIMGPU_REQUIRE(params, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(node_of_type(handle, type, node));
    SpecRef spec;
    SIMGPU_TRY(make(*node, spec));
    node->spec = std::move(spec);
    return CUDA_SUCCESS;
  });
}

CUDA_KERNEL_NODE_PARAMS_v2 widened(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  CUDA_KERNEL_NODE_PARAMS_v2 out = {};
  memcpy(&out, &p, sizeof p);
  return out;
}
CUresult kernel_queryable(const NodeSpec& spec) {
  return spec.launch() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult refuse(const char* what) {
  log_once(LogLevel::warn, what, "graphs: %s are not supported", what);
  return CUDA_ERROR_NOT_SUPPORTED;
}
}  // namespace

// --- kernels ---
SIMGPU_API cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return add("cuGraphAddKernelNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
               return kernel_spec(*nodeParams, nullptr, spec);
             });
}
SIMGPU_API cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return add("cuGraphAddKernelNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
               return kernel_spec(widened(*nodeParams), nullptr, spec);
             });
}
SIMGPU_API cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return get("cuGraphKernelNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams,
             [&](const NodeSpec& spec) -> CUresult {
               SIMGPU_TRY(kernel_queryable(spec));
               kernel_params_of(spec, *nodeParams);
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return get("cuGraphKernelNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams,
             [&](const NodeSpec& spec) -> CUresult {
               SIMGPU_TRY(kernel_queryable(spec));
               CUDA_KERNEL_NODE_PARAMS_v2 wide;
               kernel_params_of(spec, wide);
               memcpy(nodeParams, &wide, sizeof *nodeParams);
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return set("cuGraphKernelNodeSetParams", hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams,
             [&](GraphNode& node, SpecRef& spec) { return kernel_spec(*nodeParams, node.spec.get(), spec); });
}
SIMGPU_API cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return set("cuGraphKernelNodeSetParams", hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams,
             [&](GraphNode& node, SpecRef& spec) {
               return kernel_spec(widened(*nodeParams), node.spec.get(), spec);
             });
}
SIMGPU_API cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                         CUkernelNodeAttrValue* value_out) {
  return get("cuGraphKernelNodeGetAttribute", hNode, CU_GRAPH_NODE_TYPE_KERNEL, value_out,
             [&](const NodeSpec& spec) { return attribute_of(spec, attr, *value_out); });
}
SIMGPU_API cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                         const CUkernelNodeAttrValue* value) {
  return set("cuGraphKernelNodeSetAttribute", hNode, CU_GRAPH_NODE_TYPE_KERNEL, value,
             [&](GraphNode& node, SpecRef& spec) -> CUresult {
               if (attr == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
                 return refuse("device-updatable kernel nodes");
               return with_attribute(*node.spec, attr, *value, spec);
             });
}
SIMGPU_API cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  return api_call("cuGraphKernelNodeCopyAttributes", kNeedsInit, [&](Lock&) -> CUresult {
    GraphNode *to, *from;
    SIMGPU_TRY(node_of_type(dst, CU_GRAPH_NODE_TYPE_KERNEL, to));
    SIMGPU_TRY(node_of_type(src, CU_GRAPH_NODE_TYPE_KERNEL, from));
    SIMGPU_REQUIRE(to->spec->context.lock() == from->spec->context.lock(), CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(kernel_queryable(*from->spec));
    SIMGPU_TRY(kernel_queryable(*to->spec));
    SpecRef spec = to->spec;
    for (const auto& [id, value] : from->spec->launch()->attributes) {
      CUlaunchAttributeValue readable;
      if (attribute_of(*from->spec, id, readable) != CUDA_SUCCESS) continue;  // of launches only
      SpecRef next;
      SIMGPU_TRY(with_attribute(*spec, id, value, next));
      spec = std::move(next);
    }
    if (spec->launch()->cooperative != from->spec->launch()->cooperative) {
      CUlaunchAttributeValue value = {};
      value.cooperative = from->spec->launch()->cooperative;
      SpecRef next;
      SIMGPU_TRY(with_attribute(*spec, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value, next));
      spec = std::move(next);
    }
    to->spec = std::move(spec);
    return CUDA_SUCCESS;
  });
}

// --- copies and fills ---
SIMGPU_API cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  return add("cuGraphAddMemcpyNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(copyParams, CUDA_ERROR_INVALID_VALUE);
               return memcpy_spec(*copyParams, ctx, spec);
             });
}
SIMGPU_API cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  return get("cuGraphMemcpyNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams,
             [&](const NodeSpec& spec) -> CUresult {
               *nodeParams = spec.as<CUDA_MEMCPY3D>();
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
  return set("cuGraphMemcpyNodeSetParams", hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams,
             [&](GraphNode& node, SpecRef& spec) -> CUresult {
               auto context = node.spec->context.lock();
               SIMGPU_REQUIRE(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
               return memcpy_spec(*nodeParams, handle_of<CUcontext>(*context), spec);
             });
}
SIMGPU_API cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                CUcontext ctx) {
  return add("cuGraphAddMemsetNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(memsetParams, CUDA_ERROR_INVALID_VALUE);
               return memset_spec(*memsetParams, ctx, spec);
             });
}
SIMGPU_API cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return get("cuGraphMemsetNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams,
             [&](const NodeSpec& spec) -> CUresult {
               *nodeParams = spec.as<CUDA_MEMSET_NODE_PARAMS>();
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return set("cuGraphMemsetNodeSetParams", hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams,
             [&](GraphNode& node, SpecRef& spec) -> CUresult {
               auto context = node.spec->context.lock();
               SIMGPU_REQUIRE(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
               return memset_spec(*nodeParams, handle_of<CUcontext>(*context), spec);
             });
}

// --- host functions, empty nodes, child graphs ---
SIMGPU_API cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return add("cuGraphAddHostNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
               return host_spec(*nodeParams, spec);
             });
}
SIMGPU_API cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  return get("cuGraphHostNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams,
             [&](const NodeSpec& spec) -> CUresult {
               *nodeParams = spec.as<CUDA_HOST_NODE_PARAMS>();
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return set("cuGraphHostNodeSetParams", hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams,
             [&](GraphNode&, SpecRef& spec) { return host_spec(*nodeParams, spec); });
}
SIMGPU_API cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies) {
  return add("cuGraphAddEmptyNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) -> CUresult {
               spec = empty_spec();
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                    size_t numDependencies, CUgraph childGraph) {
  return add("cuGraphAddChildGraphNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph& graph, SpecRef& spec) {
               return child(graph, childGraph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, spec);
             });
}
SIMGPU_API cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
  return get("cuGraphChildGraphNodeGetGraph", hNode, CU_GRAPH_NODE_TYPE_GRAPH, phGraph,
             [&](const NodeSpec& spec) -> CUresult {
               *phGraph = handle_of<CUgraph>(*spec.as<ChildPart>().graph);
               return CUDA_SUCCESS;
             });
}

// --- events ---
SIMGPU_API cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies, size_t numDependencies, CUevent event) {
  return add("cuGraphAddEventRecordNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) { return event_spec(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, spec); });
}
SIMGPU_API cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return get("cuGraphEventRecordNodeGetEvent", hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out,
             [&](const NodeSpec& spec) -> CUresult {
               *event_out = handle_of<CUevent>(*spec.as<EventPart>().event);
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set(
      "cuGraphEventRecordNodeSetEvent", hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event,
      [&](GraphNode&, SpecRef& spec) { return event_spec(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, spec); });
}
SIMGPU_API cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   size_t numDependencies, CUevent event) {
  return add("cuGraphAddEventWaitNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) { return event_spec(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, spec); });
}
SIMGPU_API cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return get("cuGraphEventWaitNodeGetEvent", hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out,
             [&](const NodeSpec& spec) -> CUresult {
               *event_out = handle_of<CUevent>(*spec.as<EventPart>().event);
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set(
      "cuGraphEventWaitNodeSetEvent", hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event,
      [&](GraphNode&, SpecRef& spec) { return event_spec(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, spec); });
}

// --- stream memory operations ---
SIMGPU_API cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                    size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return add("cuGraphAddBatchMemOpNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
               return batch_spec(*nodeParams, spec);
             });
}
SIMGPU_API cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
  return get("cuGraphBatchMemOpNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams_out,
             [&](const NodeSpec& spec) -> CUresult {
               const BatchPart& part = spec.as<BatchPart>();
               *nodeParams_out = {part.context, unsigned(part.ops.size()),
                                  const_cast<CUstreamBatchMemOpParams*>(part.ops.data()), part.flags};
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                          const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return set("cuGraphBatchMemOpNodeSetParams", hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams,
             [&](GraphNode&, SpecRef& spec) { return batch_spec(*nodeParams, spec); });
}

// --- memory ---
SIMGPU_API cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  return add("cuGraphAddMemAllocNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph& graph, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(nodeParams && !graph.parent_node, CUDA_ERROR_INVALID_VALUE);
               return alloc_spec(graph, *nodeParams, spec);
             });
}
SIMGPU_API cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  return get("cuGraphMemAllocNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out,
             [&](const NodeSpec& spec) -> CUresult {
               const AllocPart& part = spec.as<AllocPart>();
               *params_out = part.params;
               params_out->accessDescs = part.access.empty() ? nullptr : part.access.data();
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, CUdeviceptr dptr) {
  return add("cuGraphAddMemFreeNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph& graph, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(!graph.parent_node, CUDA_ERROR_INVALID_VALUE);
               return free_spec(graph, dptr, spec);
             });
}
SIMGPU_API cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
  return get("cuGraphMemFreeNodeGetParams", hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr_out,
             [&](const NodeSpec& spec) -> CUresult {
               *dptr_out = spec.as<FreePart>().address;
               return CUDA_SUCCESS;
             });
}
SIMGPU_API cuDeviceGraphMemTrim(CUdevice device) {
  return api_call("cuDeviceGraphMemTrim", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(device_at(device), CUDA_ERROR_INVALID_DEVICE);
    return graph_memory_trim(device);
  });
}
SIMGPU_API cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  return api_call("cuDeviceGetGraphMemAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(device_at(device), CUDA_ERROR_INVALID_DEVICE);
    SIMGPU_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    uint64_t out = 0;
    SIMGPU_TRY(graph_memory_attribute(device, attr, out));
    *static_cast<cuuint64_t*>(value) = out;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  return api_call("cuDeviceSetGraphMemAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(device_at(device), CUDA_ERROR_INVALID_DEVICE);
    SIMGPU_REQUIRE(value && *static_cast<cuuint64_t*>(value) == 0, CUDA_ERROR_INVALID_VALUE);
    return reset_graph_memory_attribute(device, attr);
  });
}

// --- any type ---
namespace {
CUresult add_generic(CUgraphNode* out, CUgraph hGraph, const CUgraphNode* dependencies,
                     const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* p) {
  return add("cuGraphAddNode", out, hGraph, dependencies, data, count,
             [&](Graph& graph, SpecRef& spec) -> CUresult {
               SIMGPU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
               SIMGPU_REQUIRE(!p->reserved0[0] && !p->reserved0[1] && !p->reserved0[2] && !p->reserved2,
                              CUDA_ERROR_INVALID_VALUE);
               switch (p->type) {
                 case CU_GRAPH_NODE_TYPE_GRAPH:
                   return child(graph, p->graph.graph, p->graph.ownership, spec);
                 case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
                   SIMGPU_REQUIRE(!graph.parent_node, CUDA_ERROR_INVALID_VALUE);
                   CUDA_MEM_ALLOC_NODE_PARAMS alloc;
                   static_assert(sizeof alloc == sizeof p->alloc);
                   memcpy(&alloc, &p->alloc, sizeof alloc);
                   SIMGPU_TRY(alloc_spec(graph, alloc, spec));
                   p->alloc.dptr = alloc.dptr;
                   return CUDA_SUCCESS;
                 }
                 case CU_GRAPH_NODE_TYPE_MEM_FREE:
                   SIMGPU_REQUIRE(!graph.parent_node, CUDA_ERROR_INVALID_VALUE);
                   return free_spec(graph, p->free.dptr, spec);
                 default:
                   return generic_spec(*p, nullptr, spec);
               }
             });
}
}  // namespace
SIMGPU_API cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                          size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return add_generic(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}
SIMGPU_API cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                             const CUgraphEdgeData* dependencyData, size_t numDependencies,
                             CUgraphNodeParams* nodeParams) {
  return add_generic(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}
SIMGPU_API cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  return api_call("cuGraphNodeSetParams", kNeedsInit, [&](Lock&) -> CUresult {
    GraphNode* node = lookup<GraphNode>(hNode);
    SIMGPU_REQUIRE(node && node->graph && nodeParams && nodeParams->type == node->type(),
                   CUDA_ERROR_INVALID_VALUE);
    switch (nodeParams->type) {
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        break;
    }
    SpecRef spec;
    SIMGPU_TRY(generic_spec(*nodeParams, node->spec.get(), spec));
    node->spec = std::move(spec);
    return CUDA_SUCCESS;
  });
}

// --- not supported ---
SIMGPU_API cuGraphAddExternalSemaphoresSignalNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                                                  const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS*) {
  return api_call("cuGraphAddExternalSemaphoresSignalNode", kNeedsInit,
                  [&](Lock&) { return refuse("external semaphore nodes"); });
}
SIMGPU_API cuGraphAddExternalSemaphoresWaitNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                                                const CUDA_EXT_SEM_WAIT_NODE_PARAMS*) {
  return api_call("cuGraphAddExternalSemaphoresWaitNode", kNeedsInit,
                  [&](Lock&) { return refuse("external semaphore nodes"); });
}
SIMGPU_API cuGraphConditionalHandleCreate(CUgraphConditionalHandle*, CUgraph, CUcontext, unsigned int,
                                          unsigned int) {
  return api_call("cuGraphConditionalHandleCreate", kNeedsInit,
                  [&](Lock&) { return refuse("conditional nodes"); });
}
