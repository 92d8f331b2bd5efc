// Streams: creation, attributes, ordering, callbacks, capture.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));

CUresult priority_of(Flavour flavour, cudaStream_t stream, int* priority) {
  return driver.cuStreamGetPriority[flavour](stream, priority);
}
CUresult flags_of(Flavour flavour, cudaStream_t stream, unsigned* flags) {
  return driver.cuStreamGetFlags[flavour](stream, flags);
}
CUresult id_of(Flavour flavour, cudaStream_t stream, unsigned long long* id) {
  return driver.cuStreamGetId[flavour](stream, id);
}

cudaError_t device_of(Flavour flavour, cudaStream_t stream, int* device) {
  if (device == nullptr) return cudaErrorInvalidValue;
  CUdevice handle = 0;
  const CUresult result = driver.cuStreamGetDevice[flavour](stream, &handle);
  if (result != CUDA_SUCCESS) return to_runtime(result);
  for (int i = 0; i < device_count(); ++i) {
    if (device_handle(i) != handle) continue;
    *device = i;
    return cudaSuccess;
  }
  return cudaErrorInvalidDevice;
}

CUresult copy_attributes(Flavour flavour, cudaStream_t destination, cudaStream_t source) {
  return driver.cuStreamCopyAttributes[flavour](destination, source);
}
CUresult get_attribute(Flavour flavour, cudaStream_t stream, cudaLaunchAttributeID attribute,
                       cudaLaunchAttributeValue* value) {
  return driver.cuStreamGetAttribute[flavour](stream, static_cast<CUstreamAttrID>(attribute),
                                              reinterpret_cast<CUstreamAttrValue*>(value));
}
CUresult set_attribute(Flavour flavour, cudaStream_t stream, cudaLaunchAttributeID attribute,
                       const cudaLaunchAttributeValue* value) {
  return driver.cuStreamSetAttribute[flavour](stream, static_cast<CUstreamAttrID>(attribute),
                                              reinterpret_cast<const CUstreamAttrValue*>(value));
}

CUresult wait_event(Flavour flavour, cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return driver.cuStreamWaitEvent[flavour](stream, event, flags);
}

cudaError_t add_callback(Flavour flavour, cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                         unsigned flags) {
  if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
  // Same calling convention, and a CUresult is a cudaError_t by number.
  return to_runtime(
      driver.cuStreamAddCallback[flavour](stream, reinterpret_cast<CUstreamCallback>(callback), data, flags));
}

CUresult synchronize(Flavour flavour, cudaStream_t stream) {
  return driver.cuStreamSynchronize[flavour](stream);
}
CUresult query(Flavour flavour, cudaStream_t stream) { return driver.cuStreamQuery[flavour](stream); }
CUresult attach_memory(Flavour flavour, cudaStream_t stream, void* pointer, size_t length, unsigned flags) {
  return driver.cuStreamAttachMemAsync[flavour](stream, to_driver(pointer), length, flags);
}

CUresult begin_capture(Flavour flavour, cudaStream_t stream, cudaStreamCaptureMode mode) {
  return driver.cuStreamBeginCapture[flavour](stream, static_cast<CUstreamCaptureMode>(mode));
}
CUresult begin_capture_to_graph(Flavour flavour, cudaStream_t stream, cudaGraph_t graph,
                                const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                                size_t count, cudaStreamCaptureMode mode) {
  return driver.cuStreamBeginCaptureToGraph[flavour](stream, graph, dependencies,
                                                     reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                                                     static_cast<CUstreamCaptureMode>(mode));
}
CUresult end_capture(Flavour flavour, cudaStream_t stream, cudaGraph_t* graph) {
  return driver.cuStreamEndCapture[flavour](stream, graph);
}
CUresult is_capturing(Flavour flavour, cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return driver.cuStreamIsCapturing[flavour](stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
}
CUresult capture_info(Flavour flavour, cudaStream_t stream, cudaStreamCaptureStatus* status,
                      unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                      const cudaGraphEdgeData** edges, size_t* count) {
  return driver.cuStreamGetCaptureInfo[flavour](stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                                reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
                                                reinterpret_cast<const CUgraphEdgeData**>(edges), count);
}
CUresult update_dependencies(Flavour flavour, cudaStream_t stream, cudaGraphNode_t* dependencies,
                             const cudaGraphEdgeData* edges, size_t count, unsigned flags) {
  return driver.cuStreamUpdateCaptureDependencies[flavour](
      stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges), count, flags);
}

}  // namespace

CUDART_API cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return with_context([&] { return driver.cuStreamCreate(pStream, CU_STREAM_DEFAULT); });
}
CUDART_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  static_assert(cudaStreamNonBlocking == CU_STREAM_NON_BLOCKING);
  return with_context([&] { return driver.cuStreamCreate(pStream, flags); });
}
CUDART_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return with_context([&] { return driver.cuStreamCreateWithPriority(pStream, flags, priority); });
}
CUDART_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&]() -> cudaError_t {
    // The default streams cannot be destroyed.
    if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
      return cudaErrorInvalidResourceHandle;
    }
    return to_runtime(driver.cuStreamDestroy(stream));
  });
}
CUDART_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return with_driver(
      [&] { return driver.cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

CUDART_DUAL(_ptsz, cudaStreamGetPriority, (cudaStream_t hStream, int* priority), priority_of, hStream,
            priority)
CUDART_DUAL(_ptsz, cudaStreamGetFlags, (cudaStream_t hStream, unsigned int* flags), flags_of, hStream, flags)
CUDART_DUAL(_ptsz, cudaStreamGetId, (cudaStream_t hStream, unsigned long long* streamId), id_of, hStream,
            streamId)
CUDART_DUAL(_ptsz, cudaStreamGetDevice, (cudaStream_t hStream, int* device), device_of, hStream, device)
CUDART_DUAL(_ptsz, cudaStreamCopyAttributes, (cudaStream_t dst, cudaStream_t src), copy_attributes, dst, src)
CUDART_DUAL(_ptsz, cudaStreamGetAttribute,
            (cudaStream_t hStream, cudaLaunchAttributeID attr, cudaLaunchAttributeValue* value_out),
            get_attribute, hStream, attr, value_out)
CUDART_DUAL(_ptsz, cudaStreamSetAttribute,
            (cudaStream_t hStream, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue* value),
            set_attribute, hStream, attr, value)
CUDART_DUAL(_ptsz, cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
            wait_event, stream, event, flags)
CUDART_DUAL(_ptsz, cudaStreamAddCallback,
            (cudaStream_t stream, cudaStreamCallback_t callback, void* userData, unsigned int flags),
            add_callback, stream, callback, userData, flags)
CUDART_DUAL(_ptsz, cudaStreamSynchronize, (cudaStream_t stream), synchronize, stream)
CUDART_DUAL(_ptsz, cudaStreamQuery, (cudaStream_t stream), query, stream)
CUDART_DUAL(_ptsz, cudaStreamAttachMemAsync,
            (cudaStream_t stream, void* devPtr, size_t length, unsigned int flags), attach_memory, stream,
            devPtr, length, flags)
CUDART_DUAL(_ptsz, cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode), begin_capture,
            stream, mode)
CUDART_DUAL(_ptsz, cudaStreamBeginCaptureToGraph,
            (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
             const cudaGraphEdgeData* dependencyData, size_t numDependencies, cudaStreamCaptureMode mode),
            begin_capture_to_graph, stream, graph, dependencies, dependencyData, numDependencies, mode)
CUDART_DUAL(_ptsz, cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* pGraph), end_capture, stream,
            pGraph)
CUDART_DUAL(_ptsz, cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus),
            is_capturing, stream, pCaptureStatus)
CUDART_DUAL(_ptsz, cudaStreamGetCaptureInfo,
            (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
             cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out,
             const cudaGraphEdgeData** edgeData_out, size_t* numDependencies_out),
            capture_info, stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
            numDependencies_out)
CUDART_DUAL(_ptsz, cudaStreamUpdateCaptureDependencies,
            (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* dependencyData,
             size_t numDependencies, unsigned int flags),
            update_dependencies, stream, dependencies, dependencyData, numDependencies, flags)
