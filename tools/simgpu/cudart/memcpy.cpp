// Copies of flat memory: 1D, peer, and the batch forms.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
static_assert(offsetof(cudaMemcpy3DBatchOp, extent) == offsetof(CUDA_MEMCPY3D_BATCH_OP, extent));

cudaError_t copy(Flavour flavour, void* destination, const void* source, size_t count, cudaMemcpyKind kind) {
  CopySides sides{};
  if (!sides_of(kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  if (count == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_runtime(driver.cuMemcpyHtoD[flavour](to_driver(destination), source, count));
    case cudaMemcpyDeviceToHost:
      return to_runtime(driver.cuMemcpyDtoH[flavour](destination, to_driver(source), count));
    case cudaMemcpyDeviceToDevice:
      return to_runtime(driver.cuMemcpyDtoD[flavour](to_driver(destination), to_driver(source), count));
    default:  // host to host, or the driver infers both sides
      return to_runtime(driver.cuMemcpy[flavour](to_driver(destination), to_driver(source), count));
  }
}

cudaError_t copy_async(Flavour flavour, void* destination, const void* source, size_t count,
                       cudaMemcpyKind kind, cudaStream_t stream) {
  CopySides sides{};
  if (!sides_of(kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  if (count == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_runtime(driver.cuMemcpyHtoDAsync[flavour](to_driver(destination), source, count, stream));
    case cudaMemcpyDeviceToHost:
      return to_runtime(driver.cuMemcpyDtoHAsync[flavour](destination, to_driver(source), count, stream));
    case cudaMemcpyDeviceToDevice:
      return to_runtime(
          driver.cuMemcpyDtoDAsync[flavour](to_driver(destination), to_driver(source), count, stream));
    default:
      return to_runtime(
          driver.cuMemcpyAsync[flavour](to_driver(destination), to_driver(source), count, stream));
  }
}

cudaError_t peer_contexts(int destination_device, int source_device, CUcontext* destination,
                          CUcontext* source) {
  if (!valid_device(destination_device) || !valid_device(source_device)) return cudaErrorInvalidDevice;
  if (const cudaError_t error = retain_primary(destination_device, destination); error != cudaSuccess) {
    return error;
  }
  return retain_primary(source_device, source);
}

CUresult copy_batch(Flavour flavour, void* const* destinations, const void* const* sources,
                    const size_t* sizes, size_t count, cudaMemcpyAttributes* attributes,
                    size_t* attribute_indices, size_t attribute_count, cudaStream_t stream) {
  return driver.cuMemcpyBatchAsync[flavour](
      reinterpret_cast<CUdeviceptr*>(const_cast<void**>(destinations)),
      reinterpret_cast<CUdeviceptr*>(const_cast<void**>(sources)), const_cast<size_t*>(sizes), count,
      reinterpret_cast<CUmemcpyAttributes*>(attributes), attribute_indices, attribute_count, stream);
}

CUresult copy_3d_batch(Flavour flavour, size_t count, cudaMemcpy3DBatchOp* operations,
                       unsigned long long flags, cudaStream_t stream) {
  return driver.cuMemcpy3DBatchAsync[flavour](count, reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(operations),
                                              flags, stream);
}

}  // namespace

CUDART_DUAL(_ptds, cudaMemcpy, (void* dst, const void* src, size_t count, cudaMemcpyKind kind), copy, dst,
            src, count, kind)
CUDART_DUAL(_ptsz, cudaMemcpyAsync,
            (void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream), copy_async,
            dst, src, count, kind, stream)
CUDART_DUAL(_ptsz, cudaMemcpyBatchAsync,
            (void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count,
             cudaMemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, cudaStream_t stream),
            copy_batch, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream)
CUDART_DUAL(_ptsz, cudaMemcpy3DBatchAsync,
            (size_t numOps, cudaMemcpy3DBatchOp* opList, unsigned long long flags, cudaStream_t stream),
            copy_3d_batch, numOps, opList, flags, stream)

CUDART_API cudaError_t cudaMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice,
                                      size_t count) {
  return with_context([&]() -> cudaError_t {
    CUcontext destination = nullptr, source = nullptr;
    const cudaError_t error = peer_contexts(dstDevice, srcDevice, &destination, &source);
    if (error != cudaSuccess || count == 0) return error;
    return to_runtime(
        driver.cuMemcpyPeer[kLegacy](to_driver(dst), destination, to_driver(src), source, count));
  });
}

CUDART_API cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice,
                                           size_t count, cudaStream_t stream) {
  return with_context([&]() -> cudaError_t {
    CUcontext destination = nullptr, source = nullptr;
    const cudaError_t error = peer_contexts(dstDevice, srcDevice, &destination, &source);
    if (error != cudaSuccess || count == 0) return error;
    return to_runtime(driver.cuMemcpyPeerAsync[kLegacy](to_driver(dst), destination, to_driver(src), source,
                                                        count, stream));
  });
}
