// Identities: contexts, streams, devices, graphs, the library itself.
#include "tools/simgpu/cupti/cupti_api.h"
#include "tools/simgpu/cupti/driver.h"
#include "tools/simgpu/cupti/lifetime.h"

using namespace simgpu::cupti;

CUPTI_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiGetContextId(CUcontext context, uint32_t* contextId) {
  if (!contextId) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!context) return CUPTI_ERROR_INVALID_CONTEXT;
  Quiet quiet;
  unsigned long long id = 0;
  if (driver().cuCtxGetId(context, &id) != CUDA_SUCCESS) return CUPTI_ERROR_INVALID_CONTEXT;
  *contextId = static_cast<uint32_t>(id);
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t perThreadStream,
                                            uint32_t* streamId) {
  if (!streamId) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  Quiet quiet;
  const bool special = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (!stream && perThreadStream) stream = CU_STREAM_PER_THREAD;
  CUcontext owner = nullptr;
  unsigned long long id = 0;
  bool ok = true;
  // A default stream is that of the context asked about.
  const bool pushed = special && context && driver().cuCtxPushCurrent(context) == CUDA_SUCCESS;
  ok = ok && (!special || !context || pushed);
  ok = ok && driver().cuStreamGetId(stream, &id) == CUDA_SUCCESS;
  if (ok && context && !special)
    ok = driver().cuStreamGetCtx(stream, &owner) == CUDA_SUCCESS && owner == context;
  if (pushed) driver().cuCtxPopCurrent(&owner);
  if (!ok) return CUPTI_ERROR_INVALID_STREAM;
  *streamId = static_cast<uint32_t>(id);
  return CUPTI_SUCCESS;
}
CUPTI_EXPORT CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t* streamId) {
  return cuptiGetStreamIdEx(context, stream, 0, streamId);
}

CUPTI_EXPORT CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* deviceId) {
  if (!deviceId) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  Quiet quiet;
  if (context && driver().cuCtxPushCurrent(context) != CUDA_SUCCESS) return CUPTI_ERROR_INVALID_DEVICE;
  CUdevice device = -1;
  const CUresult result = driver().cuCtxGetDevice(&device);
  CUcontext popped = nullptr;
  if (context) driver().cuCtxPopCurrent(&popped);
  if (result != CUDA_SUCCESS) return CUPTI_ERROR_INVALID_DEVICE;
  *deviceId = static_cast<uint32_t>(device);
  return CUPTI_SUCCESS;
}

namespace {
template <class Id, class F>
CUptiResult graph_identity(void* object, Id* out, F&& find) {
  if (!object || !out) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  const uint64_t id = find(object);
  if (!id) return CUPTI_ERROR_INVALID_PARAMETER;
  *out = static_cast<Id>(id);
  return CUPTI_SUCCESS;
}
}  // namespace

CUPTI_EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* nodeId) {
  return graph_identity(node, nodeId, [](void* p) { return driver().graph_node_id(p); });
}
CUPTI_EXPORT CUptiResult cuptiGetGraphId(CUgraph graph, uint32_t* pId) {
  return graph_identity(graph, pId, [](void* p) { return driver().graph_id(p); });
}
CUPTI_EXPORT CUptiResult cuptiGetGraphExecId(CUgraphExec graphExec, uint32_t* pId) {
  return graph_identity(graphExec, pId, [](void* p) { return driver().graph_exec_id(p); });
}

// The toolkit's CUPTI 13 supports compute capability 7.5 and newer.
CUPTI_EXPORT CUptiResult cuptiComputeCapabilitySupported(int major, int minor, int* support) {
  if (!support) return CUPTI_ERROR_INVALID_PARAMETER;
  *support = major > 7 || (major == 7 && minor >= 5);
  return CUPTI_SUCCESS;
}
CUPTI_EXPORT CUptiResult cuptiDeviceSupported(CUdevice dev, int* support) {
  if (!support) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  Quiet quiet;
  int major = 0, minor = 0;
  if (driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev) !=
          CUDA_SUCCESS ||
      driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev) !=
          CUDA_SUCCESS)
    return CUPTI_ERROR_INVALID_DEVICE;
  return cuptiComputeCapabilitySupported(major, minor, support);
}
CUPTI_EXPORT CUptiResult cuptiDeviceVirtualizationMode(CUdevice dev, CUpti_DeviceVirtualizationMode* mode) {
  if (!mode) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  Quiet quiet;
  int count = 0;
  if (driver().cuDeviceGetCount(&count) != CUDA_SUCCESS || dev < 0 || dev >= count)
    return CUPTI_ERROR_INVALID_DEVICE;
  *mode = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
  return CUPTI_SUCCESS;
}
