// Executable graphs: instantiation, update, upload, launch.
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(int(cudaGraphInstantiateFlagUseNodePriority) ==
              int(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
static_assert(int(cudaGraphExecUpdateErrorAttributesChanged) ==
              int(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED));

CUresult instantiate_with_params(Flavour flavour, cudaGraphExec_t* exec, cudaGraph_t graph,
                                 cudaGraphInstantiateParams* parameters) {
  return driver.cuGraphInstantiateWithParams[flavour](
      exec, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(parameters));
}
CUresult upload(Flavour flavour, cudaGraphExec_t exec, cudaStream_t stream) {
  return driver.cuGraphUpload[flavour](exec, stream);
}
CUresult launch_graph(Flavour flavour, cudaGraphExec_t exec, cudaStream_t stream) {
  return driver.cuGraphLaunch[flavour](exec, stream);
}

}  // namespace

CUDART_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                            unsigned long long flags) {
  return with_context([&] { return driver.cuGraphInstantiateWithFlags(pGraphExec, graph, flags); });
}
CUDART_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                                     unsigned long long flags) {
  return with_context([&] { return driver.cuGraphInstantiateWithFlags(pGraphExec, graph, flags); });
}
CUDART_DUAL(_ptsz, cudaGraphInstantiateWithParams,
            (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams* instantiateParams),
            instantiate_with_params, pGraphExec, graph, instantiateParams)
CUDART_DUAL(_ptsz, cudaGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream), upload, graphExec,
            stream)
CUDART_DUAL(_ptsz, cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream), launch_graph, graphExec,
            stream)

CUDART_API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long* flags) {
  return with_context(
      [&] { return driver.cuGraphExecGetFlags(graphExec, reinterpret_cast<cuuint64_t*>(flags)); });
}
CUDART_API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                               unsigned int isEnabled) {
  return with_context([&] { return driver.cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled); });
}
CUDART_API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                               unsigned int* isEnabled) {
  return with_context([&] { return driver.cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled); });
}
CUDART_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                           cudaGraphExecUpdateResultInfo* resultInfo) {
  return with_context([&] {
    return driver.cuGraphExecUpdate(hGraphExec, hGraph,
                                    reinterpret_cast<CUgraphExecUpdateResultInfo*>(resultInfo));
  });
}
CUDART_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return with_context([&] { return driver.cuGraphExecDestroy(graphExec); });
}
