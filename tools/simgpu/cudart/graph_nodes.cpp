// Nodes of each kind: kernel, host function, child graph, empty, events, semaphores, allocation.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/graphs.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

// Structures of the two APIs that are one by layout.
static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS_v1));
static_assert(sizeof(cudaExternalSemaphoreSignalNodeParams) == sizeof(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1));
static_assert(sizeof(cudaExternalSemaphoreWaitNodeParams) == sizeof(CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1));
static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v1));

const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1* as_driver(const cudaExternalSemaphoreSignalNodeParams* parameters) {
  return reinterpret_cast<const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1*>(parameters);
}
const CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1* as_driver(const cudaExternalSemaphoreWaitNodeParams* parameters) {
  return reinterpret_cast<const CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1*>(parameters);
}
const CUDA_HOST_NODE_PARAMS_v1* as_driver(const cudaHostNodeParams* parameters) {
  return reinterpret_cast<const CUDA_HOST_NODE_PARAMS_v1*>(parameters);
}

// Body of a call that takes kernel node parameters.
template <typename Body>
cudaError_t with_kernel(const cudaKernelNodeParams* parameters, Body&& body,
                        const char* function = __builtin_FUNCTION()) {
  return with_context(
      [&]() -> cudaError_t {
        if (parameters == nullptr) return cudaErrorInvalidValue;
        CUDA_KERNEL_NODE_PARAMS_v2 native{};
        if (const cudaError_t error = to_driver(*parameters, &native); error != cudaSuccess) return error;
        return to_runtime(body(&native));
      },
      function);
}

}  // namespace

CUDART_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                              const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                              const cudaKernelNodeParams* pNodeParams) {
  return with_kernel(pNodeParams, [&](const CUDA_KERNEL_NODE_PARAMS_v2* native) {
    return driver.cuGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, native);
  });
}
CUDART_API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* pNodeParams) {
  return with_context([&]() -> cudaError_t {
    if (pNodeParams == nullptr) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS_v2 native{};
    const CUresult result = driver.cuGraphKernelNodeGetParams(node, &native);
    return result == CUDA_SUCCESS ? to_runtime(native, pNodeParams) : to_runtime(result);
  });
}
CUDART_API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                    const cudaKernelNodeParams* pNodeParams) {
  return with_kernel(pNodeParams, [&](const CUDA_KERNEL_NODE_PARAMS_v2* native) {
    return driver.cuGraphKernelNodeSetParams(node, native);
  });
}
CUDART_API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                        const cudaKernelNodeParams* pNodeParams) {
  return with_kernel(pNodeParams, [&](const CUDA_KERNEL_NODE_PARAMS_v2* native) {
    return driver.cuGraphExecKernelNodeSetParams(hGraphExec, node, native);
  });
}
CUDART_API cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc) {
  // The driver's parameters are in the same order: destination, then source.
  return with_context([&] { return driver.cuGraphKernelNodeCopyAttributes(hDst, hSrc); });
}
CUDART_API cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                                       cudaLaunchAttributeValue* value_out) {
  return with_context([&] {
    return driver.cuGraphKernelNodeGetAttribute(hNode, static_cast<CUkernelNodeAttrID>(attr),
                                                reinterpret_cast<CUkernelNodeAttrValue*>(value_out));
  });
}
CUDART_API cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                                       const cudaLaunchAttributeValue* value) {
  return with_context([&] {
    return driver.cuGraphKernelNodeSetAttribute(hNode, static_cast<CUkernelNodeAttrID>(attr),
                                                reinterpret_cast<const CUkernelNodeAttrValue*>(value));
  });
}

CUDART_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                            const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                            const cudaHostNodeParams* pNodeParams) {
  return with_context([&] {
    return driver.cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies,
                                     as_driver(pNodeParams));
  });
}
CUDART_API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* pNodeParams) {
  return with_context([&] {
    return driver.cuGraphHostNodeGetParams(node, reinterpret_cast<CUDA_HOST_NODE_PARAMS_v1*>(pNodeParams));
  });
}
CUDART_API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                  const cudaHostNodeParams* pNodeParams) {
  return with_context([&] { return driver.cuGraphHostNodeSetParams(node, as_driver(pNodeParams)); });
}
CUDART_API cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                      const cudaHostNodeParams* pNodeParams) {
  return with_context(
      [&] { return driver.cuGraphExecHostNodeSetParams(hGraphExec, node, as_driver(pNodeParams)); });
}

CUDART_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                  const cudaGraphNode_t* pDependencies,
                                                  size_t numDependencies, cudaGraph_t childGraph) {
  return with_context([&] {
    return driver.cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies, childGraph);
  });
}
CUDART_API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* pGraph) {
  return with_context([&] { return driver.cuGraphChildGraphNodeGetGraph(node, pGraph); });
}
CUDART_API cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                            cudaGraph_t childGraph) {
  return with_context(
      [&] { return driver.cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph); });
}
CUDART_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t* pDependencies, size_t numDependencies) {
  return with_context(
      [&] { return driver.cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies); });
}

CUDART_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                   const cudaGraphNode_t* pDependencies,
                                                   size_t numDependencies, cudaEvent_t event) {
  return with_context([&] {
    return driver.cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies, event);
  });
}
CUDART_API cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event_out) {
  return with_context([&] { return driver.cuGraphEventRecordNodeGetEvent(node, event_out); });
}
CUDART_API cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return with_context([&] { return driver.cuGraphEventRecordNodeSetEvent(node, event); });
}
CUDART_API cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                            cudaEvent_t event) {
  return with_context([&] { return driver.cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event); });
}
CUDART_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                 const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                                 cudaEvent_t event) {
  return with_context([&] {
    return driver.cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event);
  });
}
CUDART_API cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event_out) {
  return with_context([&] { return driver.cuGraphEventWaitNodeGetEvent(node, event_out); });
}
CUDART_API cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return with_context([&] { return driver.cuGraphEventWaitNodeSetEvent(node, event); });
}
CUDART_API cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                          cudaEvent_t event) {
  return with_context([&] { return driver.cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event); });
}

CUDART_API cudaError_t cudaGraphAddExternalSemaphoresSignalNode(
    cudaGraphNode_t* pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
    size_t numDependencies, const cudaExternalSemaphoreSignalNodeParams* nodeParams) {
  return with_context([&] {
    return driver.cuGraphAddExternalSemaphoresSignalNode(pGraphNode, graph, pDependencies, numDependencies,
                                                         as_driver(nodeParams));
  });
}
CUDART_API cudaError_t cudaGraphExternalSemaphoresSignalNodeGetParams(
    cudaGraphNode_t hNode, cudaExternalSemaphoreSignalNodeParams* params_out) {
  return with_context([&] {
    return driver.cuGraphExternalSemaphoresSignalNodeGetParams(
        hNode, reinterpret_cast<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1*>(params_out));
  });
}
CUDART_API cudaError_t cudaGraphExternalSemaphoresSignalNodeSetParams(
    cudaGraphNode_t hNode, const cudaExternalSemaphoreSignalNodeParams* nodeParams) {
  return with_context(
      [&] { return driver.cuGraphExternalSemaphoresSignalNodeSetParams(hNode, as_driver(nodeParams)); });
}
CUDART_API cudaError_t
cudaGraphExecExternalSemaphoresSignalNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                   const cudaExternalSemaphoreSignalNodeParams* nodeParams) {
  return with_context([&] {
    return driver.cuGraphExecExternalSemaphoresSignalNodeSetParams(hGraphExec, hNode, as_driver(nodeParams));
  });
}
CUDART_API cudaError_t cudaGraphAddExternalSemaphoresWaitNode(
    cudaGraphNode_t* pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
    size_t numDependencies, const cudaExternalSemaphoreWaitNodeParams* nodeParams) {
  return with_context([&] {
    return driver.cuGraphAddExternalSemaphoresWaitNode(pGraphNode, graph, pDependencies, numDependencies,
                                                       as_driver(nodeParams));
  });
}
CUDART_API cudaError_t cudaGraphExternalSemaphoresWaitNodeGetParams(
    cudaGraphNode_t hNode, cudaExternalSemaphoreWaitNodeParams* params_out) {
  return with_context([&] {
    return driver.cuGraphExternalSemaphoresWaitNodeGetParams(
        hNode, reinterpret_cast<CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1*>(params_out));
  });
}
CUDART_API cudaError_t cudaGraphExternalSemaphoresWaitNodeSetParams(
    cudaGraphNode_t hNode, const cudaExternalSemaphoreWaitNodeParams* nodeParams) {
  return with_context(
      [&] { return driver.cuGraphExternalSemaphoresWaitNodeSetParams(hNode, as_driver(nodeParams)); });
}
CUDART_API cudaError_t
cudaGraphExecExternalSemaphoresWaitNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                 const cudaExternalSemaphoreWaitNodeParams* nodeParams) {
  return with_context([&] {
    return driver.cuGraphExecExternalSemaphoresWaitNodeSetParams(hGraphExec, hNode, as_driver(nodeParams));
  });
}

CUDART_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                                cudaMemAllocNodeParams* nodeParams) {
  return with_context([&] {
    return driver.cuGraphAddMemAllocNode(pGraphNode, graph, pDependencies, numDependencies,
                                         reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS_v1*>(nodeParams));
  });
}
CUDART_API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                      cudaMemAllocNodeParams* params_out) {
  return with_context([&] {
    return driver.cuGraphMemAllocNodeGetParams(node,
                                               reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS_v1*>(params_out));
  });
}
CUDART_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                               const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                               void* dptr) {
  return with_context([&] {
    return driver.cuGraphAddMemFreeNode(pGraphNode, graph, pDependencies, numDependencies, to_driver(dptr));
  });
}
CUDART_API cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* dptr_out) {
  return with_context(
      [&] { return driver.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(dptr_out)); });
}
