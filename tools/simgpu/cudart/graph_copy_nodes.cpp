// Copy and fill nodes, in all the forms the runtime has for them.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/graphs.h"
#include "tools/simgpu/cudart/state.h"
#include "tools/simgpu/cudart/symbols.h"

using namespace simgpu::cudart;

namespace {

// Where a described copy goes: into a new node, an existing node, or a node of an executable.
struct AddTo {
  cudaGraphNode_t* node;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  size_t count;
  CUresult operator()(const CUDA_MEMCPY3D_v2& copy) const {
    return driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, current_context());
  }
};
struct SetIn {
  cudaGraphNode_t node;
  CUresult operator()(const CUDA_MEMCPY3D_v2& copy) const {
    return driver.cuGraphMemcpyNodeSetParams(node, &copy);
  }
};
struct SetInExec {
  cudaGraphExec_t exec;
  cudaGraphNode_t node;
  CUresult operator()(const CUDA_MEMCPY3D_v2& copy) const {
    return driver.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, current_context());
  }
};

template <typename Sink>
cudaError_t copy_3d(const Sink& sink, const cudaMemcpy3DParms* parameters,
                    const char* function = __builtin_FUNCTION()) {
  return with_context(
      [&]() -> cudaError_t {
        if (parameters == nullptr) return cudaErrorInvalidValue;
        CUDA_MEMCPY3D_v2 native{};
        if (const cudaError_t error = to_driver(*parameters, &native); error != cudaSuccess) return error;
        return to_runtime(sink(native));
      },
      function);
}

template <typename Sink>
cudaError_t copy_1d(const Sink& sink, void* destination, const void* source, size_t count,
                    cudaMemcpyKind kind, const char* function = __builtin_FUNCTION()) {
  return with_context(
      [&]() -> cudaError_t {
        CUDA_MEMCPY3D_v2 native{};
        if (const cudaError_t error = flat_copy(destination, source, count, kind, &native);
            error != cudaSuccess) {
          return error;
        }
        return to_runtime(sink(native));
      },
      function);
}

template <typename Sink>
cudaError_t copy_to_symbol(const Sink& sink, const void* symbol, const void* source, size_t count,
                           size_t offset, cudaMemcpyKind kind, const char* function = __builtin_FUNCTION()) {
  return with_context(
      [&]() -> cudaError_t {
        if (!kind_to_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
        void* destination = nullptr;
        if (const cudaError_t error = symbol_range(symbol, offset, count, &destination);
            error != cudaSuccess) {
          return error;
        }
        CUDA_MEMCPY3D_v2 native{};
        if (const cudaError_t error = flat_copy(destination, source, count, kind, &native);
            error != cudaSuccess) {
          return error;
        }
        return to_runtime(sink(native));
      },
      function);
}

template <typename Sink>
cudaError_t copy_from_symbol(const Sink& sink, void* destination, const void* symbol, size_t count,
                             size_t offset, cudaMemcpyKind kind,
                             const char* function = __builtin_FUNCTION()) {
  return with_context(
      [&]() -> cudaError_t {
        if (!kind_from_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
        void* source = nullptr;
        if (const cudaError_t error = symbol_range(symbol, offset, count, &source); error != cudaSuccess) {
          return error;
        }
        CUDA_MEMCPY3D_v2 native{};
        if (const cudaError_t error = flat_copy(destination, source, count, kind, &native);
            error != cudaSuccess) {
          return error;
        }
        return to_runtime(sink(native));
      },
      function);
}

}  // namespace

CUDART_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                              const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                              const cudaMemcpy3DParms* pCopyParams) {
  return copy_3d(AddTo{pGraphNode, graph, pDependencies, numDependencies}, pCopyParams);
}
CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                    const cudaMemcpy3DParms* pNodeParams) {
  return copy_3d(SetIn{node}, pNodeParams);
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                        const cudaMemcpy3DParms* pNodeParams) {
  return copy_3d(SetInExec{hGraphExec, node}, pNodeParams);
}

CUDART_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                                void* dst, const void* src, size_t count,
                                                cudaMemcpyKind kind) {
  return copy_1d(AddTo{pGraphNode, graph, pDependencies, numDependencies}, dst, src, count, kind);
}
CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src,
                                                      size_t count, cudaMemcpyKind kind) {
  return copy_1d(SetIn{node}, dst, src, count, kind);
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                          void* dst, const void* src, size_t count,
                                                          cudaMemcpyKind kind) {
  return copy_1d(SetInExec{hGraphExec, node}, dst, src, count, kind);
}

CUDART_API cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                      const cudaGraphNode_t* pDependencies,
                                                      size_t numDependencies, const void* symbol,
                                                      const void* src, size_t count, size_t offset,
                                                      cudaMemcpyKind kind) {
  return copy_to_symbol(AddTo{pGraphNode, graph, pDependencies, numDependencies}, symbol, src, count, offset,
                        kind);
}
CUDART_API cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol,
                                                            const void* src, size_t count, size_t offset,
                                                            cudaMemcpyKind kind) {
  return copy_to_symbol(SetIn{node}, symbol, src, count, offset, kind);
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec,
                                                                cudaGraphNode_t node, const void* symbol,
                                                                const void* src, size_t count, size_t offset,
                                                                cudaMemcpyKind kind) {
  return copy_to_symbol(SetInExec{hGraphExec, node}, symbol, src, count, offset, kind);
}

CUDART_API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                        const cudaGraphNode_t* pDependencies,
                                                        size_t numDependencies, void* dst, const void* symbol,
                                                        size_t count, size_t offset, cudaMemcpyKind kind) {
  return copy_from_symbol(AddTo{pGraphNode, graph, pDependencies, numDependencies}, dst, symbol, count,
                          offset, kind);
}
CUDART_API cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* dst,
                                                              const void* symbol, size_t count, size_t offset,
                                                              cudaMemcpyKind kind) {
  return copy_from_symbol(SetIn{node}, dst, symbol, count, offset, kind);
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                                  cudaGraphNode_t node, void* dst,
                                                                  const void* symbol, size_t count,
                                                                  size_t offset, cudaMemcpyKind kind) {
  return copy_from_symbol(SetInExec{hGraphExec, node}, dst, symbol, count, offset, kind);
}

CUDART_API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* pNodeParams) {
  return with_context([&]() -> cudaError_t {
    if (pNodeParams == nullptr) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D_v2 native{};
    const CUresult result = driver.cuGraphMemcpyNodeGetParams(node, &native);
    return result == CUDA_SUCCESS ? to_runtime(native, pNodeParams) : to_runtime(result);
  });
}

CUDART_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                              const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                              const cudaMemsetParams* pMemsetParams) {
  return with_context([&]() -> cudaError_t {
    if (pMemsetParams == nullptr) return cudaErrorInvalidValue;
    const CUDA_MEMSET_NODE_PARAMS_v1 native = to_driver(*pMemsetParams);
    return to_runtime(driver.cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies, &native,
                                                  current_context()));
  });
}
CUDART_API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* pNodeParams) {
  return with_context([&]() -> cudaError_t {
    if (pNodeParams == nullptr) return cudaErrorInvalidValue;
    CUDA_MEMSET_NODE_PARAMS_v1 native{};
    const CUresult result = driver.cuGraphMemsetNodeGetParams(node, &native);
    if (result != CUDA_SUCCESS) return to_runtime(result);
    *pNodeParams = {reinterpret_cast<void*>(native.dst),
                    native.pitch,
                    native.value,
                    native.elementSize,
                    native.width,
                    native.height};
    return cudaSuccess;
  });
}
CUDART_API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                    const cudaMemsetParams* pNodeParams) {
  return with_context([&]() -> cudaError_t {
    if (pNodeParams == nullptr) return cudaErrorInvalidValue;
    const CUDA_MEMSET_NODE_PARAMS_v1 native = to_driver(*pNodeParams);
    return to_runtime(driver.cuGraphMemsetNodeSetParams(node, &native));
  });
}
CUDART_API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                        const cudaMemsetParams* pNodeParams) {
  return with_context([&]() -> cudaError_t {
    if (pNodeParams == nullptr) return cudaErrorInvalidValue;
    const CUDA_MEMSET_NODE_PARAMS_v1 native = to_driver(*pNodeParams);
    return to_runtime(driver.cuGraphExecMemsetNodeSetParams(hGraphExec, node, &native, current_context()));
  });
}
