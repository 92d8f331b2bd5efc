// Graphs as structures: creation, nodes of any kind, edges, user objects, memory attributes.
#include "tools/simgpu/cudart/graphs.h"

#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

CUDART_API cudaError_t cudaGraphCreate(cudaGraph_t* pGraph, unsigned int flags) {
  return with_context([&] { return driver.cuGraphCreate(pGraph, flags); });
}
CUDART_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_context([&] { return driver.cuGraphDestroy(graph); });
}
CUDART_API cudaError_t cudaGraphClone(cudaGraph_t* pGraphClone, cudaGraph_t originalGraph) {
  return with_context([&] { return driver.cuGraphClone(pGraphClone, originalGraph); });
}
CUDART_API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* pNode, cudaGraphNode_t originalNode,
                                                cudaGraph_t clonedGraph) {
  return with_context([&] { return driver.cuGraphNodeFindInClone(pNode, originalNode, clonedGraph); });
}
CUDART_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  return with_context(
      [&] { return driver.cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(pType)); });
}
CUDART_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  return with_context([&] { return driver.cuGraphGetNodes(graph, nodes, numNodes); });
}
CUDART_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* pRootNodes,
                                             size_t* pNumRootNodes) {
  return with_context([&] { return driver.cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes); });
}
CUDART_API cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                         cudaGraphEdgeData* edgeData, size_t* numEdges) {
  return with_context([&] { return driver.cuGraphGetEdges(graph, from, to, as_driver(edgeData), numEdges); });
}
CUDART_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                                    cudaGraphEdgeData* edgeData, size_t* pNumDependencies) {
  return with_context([&] {
    return driver.cuGraphNodeGetDependencies(node, pDependencies, as_driver(edgeData), pNumDependencies);
  });
}
CUDART_API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* pDependentNodes,
                                                      cudaGraphEdgeData* edgeData,
                                                      size_t* pNumDependentNodes) {
  return with_context([&] {
    return driver.cuGraphNodeGetDependentNodes(node, pDependentNodes, as_driver(edgeData),
                                               pNumDependentNodes);
  });
}
CUDART_API cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                                size_t numDependencies) {
  return with_context(
      [&] { return driver.cuGraphAddDependencies(graph, from, to, as_driver(edgeData), numDependencies); });
}
CUDART_API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to,
                                                   const cudaGraphEdgeData* edgeData,
                                                   size_t numDependencies) {
  return with_context([&] {
    return driver.cuGraphRemoveDependencies(graph, from, to, as_driver(edgeData), numDependencies);
  });
}
CUDART_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return with_context([&] { return driver.cuGraphDestroyNode(node); });
}
CUDART_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  static_assert(cudaGraphDebugDotFlagsHandles == unsigned{CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES});
  return with_context([&] {
    return driver.cuGraphDebugDotPrint(graph, path, flags | CU_GRAPH_DEBUG_DOT_FLAGS_RUNTIME_TYPES);
  });
}

CUDART_API cudaError_t cudaGraphAddNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t* pDependencies,
                                        const cudaGraphEdgeData* dependencyData, size_t numDependencies,
                                        cudaGraphNodeParams* nodeParams) {
  return with_context([&]() -> cudaError_t {
    if (nodeParams == nullptr) return cudaErrorInvalidValue;
    CUgraphNodeParams native;
    if (const cudaError_t error = to_driver(*nodeParams, &native); error != cudaSuccess) return error;
    const CUresult result = driver.cuGraphAddNode(pGraphNode, graph, pDependencies, as_driver(dependencyData),
                                                  numDependencies, &native);
    if (result == CUDA_SUCCESS) copy_results(native, nodeParams);
    return to_runtime(result);
  });
}
CUDART_API cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* nodeParams) {
  return with_context([&]() -> cudaError_t {
    if (nodeParams == nullptr) return cudaErrorInvalidValue;
    CUgraphNodeParams native;
    if (const cudaError_t error = to_driver(*nodeParams, &native); error != cudaSuccess) return error;
    return to_runtime(driver.cuGraphNodeSetParams(node, &native));
  });
}
CUDART_API cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                                  cudaGraphNodeParams* nodeParams) {
  return with_context([&]() -> cudaError_t {
    if (nodeParams == nullptr) return cudaErrorInvalidValue;
    CUgraphNodeParams native;
    if (const cudaError_t error = to_driver(*nodeParams, &native); error != cudaSuccess) return error;
    return to_runtime(driver.cuGraphExecNodeSetParams(graphExec, node, &native));
  });
}

CUDART_API cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* pHandle_out,
                                                        cudaGraph_t graph, unsigned int defaultLaunchValue,
                                                        unsigned int flags) {
  static_assert(sizeof(cudaGraphConditionalHandle) == sizeof(CUgraphConditionalHandle));
  return with_context([&] {
    return driver.cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(pHandle_out),
                                                 graph, current_context(), defaultLaunchValue, flags);
  });
}

CUDART_API cudaError_t cudaUserObjectCreate(cudaUserObject_t* object_out, void* ptr, cudaHostFn_t destroy,
                                            unsigned int initialRefcount, unsigned int flags) {
  return with_context(
      [&] { return driver.cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags); });
}
CUDART_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver.cuUserObjectRetain(object, count); });
}
CUDART_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver.cuUserObjectRelease(object, count); });
}
CUDART_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                 unsigned int count, unsigned int flags) {
  return with_context([&] { return driver.cuGraphRetainUserObject(graph, object, count, flags); });
}
CUDART_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                  unsigned int count) {
  return with_context([&] { return driver.cuGraphReleaseUserObject(graph, object, count); });
}

CUDART_API cudaError_t cudaDeviceGraphMemTrim(int device) {
  return with_context([&]() -> cudaError_t {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    return to_runtime(driver.cuDeviceGraphMemTrim(device_handle(device)));
  });
}
CUDART_API cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attr,
                                                      void* value) {
  return with_context([&]() -> cudaError_t {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    return to_runtime(driver.cuDeviceGetGraphMemAttribute(device_handle(device),
                                                          static_cast<CUgraphMem_attribute>(attr), value));
  });
}
CUDART_API cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attr,
                                                      void* value) {
  return with_context([&]() -> cudaError_t {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    return to_runtime(driver.cuDeviceSetGraphMemAttribute(device_handle(device),
                                                          static_cast<CUgraphMem_attribute>(attr), value));
  });
}
