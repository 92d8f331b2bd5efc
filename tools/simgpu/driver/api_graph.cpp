// Graphs: creation, destruction, clones, edges, enumeration, dot files, user objects.
#include <climits>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/graph.h"

using namespace simgpu::driver;

namespace {
// Counted enumeration: NULL array asks for the count; a longer array is filled up with NULL, a shorter one
// gets what fits.
template <class Get>
void enumerate(size_t total, CUgraphNode* out, size_t* count, Get get) {
  if (!out) {
    *count = total;
    return;
  }
  for (size_t i = 0; i < *count; ++i) out[i] = i < total ? get(i) : nullptr;
  *count = std::min(*count, total);
}

CUresult edge_list(const std::vector<Edge>& edges, CUgraphNode* out, CUgraphEdgeData* data, bool with_data,
                   size_t* count) {
  SIMGPU_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!data || out, CUDA_ERROR_INVALID_VALUE);
  if (out && (!with_data || !data)) {
    for (const Edge& edge : edges) SIMGPU_REQUIRE(is_default(edge.data), CUDA_ERROR_LOSSY_QUERY);
  }
  const size_t room = out ? *count : 0;
  enumerate(edges.size(), out, count, [&](size_t i) { return handle_of<CUgraphNode>(*edges[i].node); });
  if (data) {
    for (size_t i = 0; i < room; ++i) data[i] = i < edges.size() ? edges[i].data : CUgraphEdgeData{};
  }
  return CUDA_SUCCESS;
}

CUresult neighbours(CUgraphNode handle, bool dependents, CUgraphNode* out, CUgraphEdgeData* data,
                    bool with_data, size_t* count) {
  GraphNode* node = lookup<GraphNode>(handle);
  SIMGPU_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
  return edge_list(dependents ? node->dependents : node->dependencies, out, data, with_data, count);
}

CUresult all_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, bool with_data,
                   size_t* count) {
  Graph* graph = lookup<Graph>(handle);
  SIMGPU_REQUIRE(graph && count && (!from == !to), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!data || from, CUDA_ERROR_INVALID_VALUE);
  size_t total = 0;
  for (const auto& node : graph->nodes) total += node->dependencies.size();
  if (!from) {
    *count = total;
    return CUDA_SUCCESS;
  }
  size_t at = 0;
  for (const auto& node : graph->nodes) {
    for (const Edge& edge : node->dependencies) {
      if (at >= *count) break;
      SIMGPU_REQUIRE((with_data && data) || is_default(edge.data), CUDA_ERROR_LOSSY_QUERY);
      from[at] = handle_of<CUgraphNode>(*edge.node);
      to[at] = handle_of<CUgraphNode>(*node);
      if (data) data[at] = edge.data;
      ++at;
    }
  }
  for (size_t i = at; i < *count; ++i) {
    from[i] = to[i] = nullptr;
    if (data) data[i] = {};
  }
  *count = at;
  return CUDA_SUCCESS;
}

CUresult change_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, size_t count, bool add) {
  Graph* graph = lookup<Graph>(handle);
  SIMGPU_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
  if (!count) return CUDA_SUCCESS;
  SIMGPU_REQUIRE(from && to, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(add || !graph->has_memory_nodes(), CUDA_ERROR_INVALID_VALUE);
  struct Pair {
    GraphNode *from, *to;
    CUgraphEdgeData data;
  };
  std::vector<Pair> pairs;
  for (size_t i = 0; i < count; ++i) {
    GraphNode *a = lookup<GraphNode>(from[i]), *b = lookup<GraphNode>(to[i]);
    SIMGPU_REQUIRE(a && b && a != b && a->graph == graph && b->graph == graph, CUDA_ERROR_INVALID_VALUE);
    const CUgraphEdgeData edge_data = data ? data[i] : CUgraphEdgeData{};
    SIMGPU_TRY(check_edge_data(*a, edge_data));
    const Edge* edge = find_edge(*a, *b);
    if (add) {
      SIMGPU_REQUIRE(!edge, CUDA_ERROR_INVALID_VALUE);  // exists already
    } else {
      SIMGPU_REQUIRE(edge && same(edge->data, edge_data), CUDA_ERROR_INVALID_VALUE);
    }
    pairs.push_back({a, b, edge_data});
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Edge* edge = find_edge(*pairs[i].from, *pairs[i].to);
    if (add == (edge != nullptr)) {  // named twice in this call: leave things as they were
      for (size_t k = 0; k < i; ++k) {
        if (add)
          disconnect(*pairs[k].from, *pairs[k].to);
        else
          connect(*pairs[k].from, *pairs[k].to, pairs[k].data);
      }
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (add)
      connect(*pairs[i].from, *pairs[i].to, pairs[i].data);
    else
      disconnect(*pairs[i].from, *pairs[i].to);
  }
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  return api_call("cuGraphCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(phGraph && flags == 0, CUDA_ERROR_INVALID_VALUE);
    *phGraph = handle_of<CUgraph>(*create_graph());
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphDestroy(CUgraph hGraph) {
  return api_call("cuGraphDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    Graph* graph = lookup<Graph>(hGraph);
    SIMGPU_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!graph->parent_node && !graph->captures, CUDA_ERROR_INVALID_VALUE);
    destroy_graph(*graph);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  return api_call("cuGraphClone", kNeedsInit, [&](Lock&) -> CUresult {
    Graph* graph = lookup<Graph>(originalGraph);
    SIMGPU_REQUIRE(phGraphClone && graph, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!graph->has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
    *phGraphClone = handle_of<CUgraph>(*clone_graph(*graph, false));
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
  return api_call("cuGraphNodeFindInClone", kNeedsInit, [&](Lock&) -> CUresult {
    GraphNode* node = lookup<GraphNode>(hOriginalNode);
    Graph* clone = lookup<Graph>(hClonedGraph);
    SIMGPU_REQUIRE(phNode && node && clone && node->graph, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(clone->original == node->graph->id, CUDA_ERROR_INVALID_VALUE);
    for (const auto& candidate : clone->nodes) {
      if (candidate->original != node->serial) continue;
      *phNode = handle_of<CUgraphNode>(*candidate);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

SIMGPU_API cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  return api_call("cuGraphNodeGetType", kNeedsInit, [&](Lock&) -> CUresult {
    GraphNode* node = lookup<GraphNode>(hNode);
    SIMGPU_REQUIRE(node && type, CUDA_ERROR_INVALID_VALUE);
    *type = node->type();
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  return api_call("cuGraphGetNodes", kNeedsInit, [&](Lock&) -> CUresult {
    Graph* graph = lookup<Graph>(hGraph);
    SIMGPU_REQUIRE(graph && numNodes, CUDA_ERROR_INVALID_VALUE);
    enumerate(graph->nodes.size(), nodes, numNodes,
              [&](size_t i) { return handle_of<CUgraphNode>(*graph->nodes[i]); });
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  return api_call("cuGraphGetRootNodes", kNeedsInit, [&](Lock&) -> CUresult {
    Graph* graph = lookup<Graph>(hGraph);
    SIMGPU_REQUIRE(graph && numRootNodes, CUDA_ERROR_INVALID_VALUE);
    std::vector<const GraphNode*> roots;
    for (const auto& node : graph->nodes)
      if (node->dependencies.empty()) roots.push_back(node.get());
    enumerate(roots.size(), rootNodes, numRootNodes,
              [&](size_t i) { return handle_of<CUgraphNode>(*roots[i]); });
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
  return api_call("cuGraphGetEdges", kNeedsInit,
                  [&](Lock&) -> CUresult { return all_edges(hGraph, from, to, nullptr, false, numEdges); });
}
SIMGPU_API cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                              size_t* numEdges) {
  return api_call("cuGraphGetEdges", kNeedsInit,
                  [&](Lock&) -> CUresult { return all_edges(hGraph, from, to, edgeData, true, numEdges); });
}

SIMGPU_API cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
  return api_call("cuGraphNodeGetDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return neighbours(hNode, false, dependencies, nullptr, false, numDependencies);
  });
}
SIMGPU_API cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies,
                                         CUgraphEdgeData* edgeData, size_t* numDependencies) {
  return api_call("cuGraphNodeGetDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return neighbours(hNode, false, dependencies, edgeData, true, numDependencies);
  });
}
SIMGPU_API cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                        size_t* numDependentNodes) {
  return api_call("cuGraphNodeGetDependentNodes", kNeedsInit, [&](Lock&) -> CUresult {
    return neighbours(hNode, true, dependentNodes, nullptr, false, numDependentNodes);
  });
}
SIMGPU_API cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                           CUgraphEdgeData* edgeData, size_t* numDependentNodes) {
  return api_call("cuGraphNodeGetDependentNodes", kNeedsInit, [&](Lock&) -> CUresult {
    return neighbours(hNode, true, dependentNodes, edgeData, true, numDependentNodes);
  });
}

SIMGPU_API cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                  size_t numDependencies) {
  return api_call("cuGraphAddDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return change_edges(hGraph, from, to, nullptr, numDependencies, true);
  });
}
SIMGPU_API cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                     const CUgraphEdgeData* edgeData, size_t numDependencies) {
  return api_call("cuGraphAddDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return change_edges(hGraph, from, to, edgeData, numDependencies, true);
  });
}
SIMGPU_API cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                     size_t numDependencies) {
  return api_call("cuGraphRemoveDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return change_edges(hGraph, from, to, nullptr, numDependencies, false);
  });
}
SIMGPU_API cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                        const CUgraphEdgeData* edgeData, size_t numDependencies) {
  return api_call("cuGraphRemoveDependencies", kNeedsInit, [&](Lock&) -> CUresult {
    return change_edges(hGraph, from, to, edgeData, numDependencies, false);
  });
}

SIMGPU_API cuGraphDestroyNode(CUgraphNode hNode) {
  return api_call("cuGraphDestroyNode", kNeedsInit, [&](Lock&) -> CUresult {
    GraphNode* node = lookup<GraphNode>(hNode);
    SIMGPU_REQUIRE(node && node->graph, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!node->graph->captures && !node->graph->has_memory_nodes(), CUDA_ERROR_INVALID_VALUE);
    remove_node(*node);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  return api_call("cuGraphDebugDotPrint", kNeedsInit, [&](Lock&) -> CUresult {
    Graph* graph = lookup<Graph>(hGraph);
    SIMGPU_REQUIRE(graph && path && !(flags & ~0xFFFFu), CUDA_ERROR_INVALID_VALUE);
    return print_dot(*graph, path, flags);
  });
}

// --- user objects ---
SIMGPU_API cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                              unsigned int initialRefcount, unsigned int flags) {
  return api_call("cuUserObjectCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(object_out && destroy && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
                   CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(initialRefcount && initialRefcount <= INT_MAX, CUDA_ERROR_INVALID_VALUE);
    auto object = std::make_shared<UserObject>();
    object->destroy = destroy;
    object->pointer = ptr;
    object->references = initialRefcount;
    make_handle(object);
    *object_out = handle_of<CUuserObject>(*object);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  return api_call("cuUserObjectRetain", kNeedsInit, [&](Lock&) -> CUresult {
    UserObject* object = lookup<UserObject>(handle);
    SIMGPU_REQUIRE(object && count && count <= INT_MAX, CUDA_ERROR_INVALID_VALUE);
    object->references += count;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  return api_call("cuUserObjectRelease", kNeedsInit, [&](Lock&) -> CUresult {
    UserObject* object = lookup<UserObject>(handle);
    SIMGPU_REQUIRE(object && count && count <= INT_MAX && count <= object->references,
                   CUDA_ERROR_INVALID_VALUE);
    auto keep = shared(object);
    release_user_object(*object, count);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuGraphRetainUserObject(CUgraph hGraph, CUuserObject handle, unsigned int count,
                                   unsigned int flags) {
  return api_call("cuGraphRetainUserObject", kNeedsInit, [&](Lock&) -> CUresult {
    Graph* graph = lookup<Graph>(hGraph);
    UserObject* object = lookup<UserObject>(handle);
    SIMGPU_REQUIRE(graph && object && count && count <= INT_MAX && !(flags & ~CU_GRAPH_USER_OBJECT_MOVE),
                   CUDA_ERROR_INVALID_VALUE);
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) object->references += count;
    graph->user_objects[shared(object)] += count;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuGraphReleaseUserObject(CUgraph hGraph, CUuserObject handle, unsigned int count) {
  return api_call("cuGraphReleaseUserObject", kNeedsInit, [&](Lock&) -> CUresult {
    Graph* graph = lookup<Graph>(hGraph);
    UserObject* object = lookup<UserObject>(handle);
    SIMGPU_REQUIRE(graph && object && count && count <= INT_MAX, CUDA_ERROR_INVALID_VALUE);
    auto keep = shared(object);
    auto place = graph->user_objects.find(keep);
    SIMGPU_REQUIRE(place != graph->user_objects.end() && place->second >= count, CUDA_ERROR_INVALID_VALUE);
    place->second -= count;
    if (!place->second) graph->user_objects.erase(place);
    release_user_object(*object, count);
    return CUDA_SUCCESS;
  });
}
