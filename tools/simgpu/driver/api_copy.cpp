// Copies and fills, one function per form. The rules are in core/copy.cpp.
#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/copy.h"
#include "tools/simgpu/driver/core/hooks.h"

using namespace simgpu::driver;

namespace {
uint64_t address_of(const void* p) { return reinterpret_cast<uint64_t>(p); }
CopyShape line(uint64_t dst, uint64_t src, uint64_t bytes) {
  CopyShape shape;
  shape.dst.address = dst;
  shape.src.address = src;
  shape.width = bytes;
  return shape;
}
// A run of bytes inside an array that has one row.
CUresult array_line(CUarray array, uint64_t offset, uint64_t bytes, uint64_t& address) {
  SIMGPU_REQUIRE(g_array_place, CUDA_ERROR_NOT_SUPPORTED);
  ArrayPlace place;
  SIMGPU_TRY(g_array_place(array, place));
  SIMGPU_REQUIRE(place.height <= 1 && place.depth <= 1 && offset + bytes <= place.row_bytes,
                 CUDA_ERROR_INVALID_VALUE);
  address = place.address + offset;
  return CUDA_SUCCESS;
}
CUresult peer_contexts_exist(CUcontext a, CUcontext b) {
  SIMGPU_REQUIRE(lookup<Context>(a) && lookup<Context>(b), CUDA_ERROR_INVALID_CONTEXT);
  return CUDA_SUCCESS;
}
CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& p) {
  CUDA_MEMCPY3D q = {};
  q.srcXInBytes = p.srcXInBytes, q.srcY = p.srcY, q.srcZ = p.srcZ, q.srcLOD = p.srcLOD;
  q.srcMemoryType = p.srcMemoryType, q.srcHost = p.srcHost, q.srcDevice = p.srcDevice,
  q.srcArray = p.srcArray;
  q.srcPitch = p.srcPitch, q.srcHeight = p.srcHeight;
  q.dstXInBytes = p.dstXInBytes, q.dstY = p.dstY, q.dstZ = p.dstZ, q.dstLOD = p.dstLOD;
  q.dstMemoryType = p.dstMemoryType, q.dstHost = p.dstHost, q.dstDevice = p.dstDevice,
  q.dstArray = p.dstArray;
  q.dstPitch = p.dstPitch, q.dstHeight = p.dstHeight;
  q.WidthInBytes = p.WidthInBytes, q.Height = p.Height, q.Depth = p.Depth;
  return q;
}
}  // namespace

SIMGPU_API cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return api_call("cuMemcpy", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(dst, src, ByteCount), Side::unified, Side::unified, nullptr, false);
  });
}
SIMGPU_API cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return api_call("cuMemcpyAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(dst, src, ByteCount), Side::unified, Side::unified, hStream, true);
  });
}

SIMGPU_API cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return api_call("cuMemcpyHtoD", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(dstDevice, address_of(srcHost), ByteCount), Side::host, Side::device, nullptr,
                false);
  });
}
SIMGPU_API cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                CUstream hStream) {
  return api_call("cuMemcpyHtoDAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(dstDevice, address_of(srcHost), ByteCount), Side::host, Side::device, hStream,
                true);
  });
}

SIMGPU_API cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return api_call("cuMemcpyDtoH", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(address_of(dstHost), srcDevice, ByteCount), Side::device, Side::host, nullptr,
                false);
  });
}
SIMGPU_API cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return api_call("cuMemcpyDtoHAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(address_of(dstHost), srcDevice, ByteCount), Side::device, Side::host, hStream,
                true);
  });
}

SIMGPU_API cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return api_call("cuMemcpyDtoD", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(dstDevice, srcDevice, ByteCount), Side::device, Side::device, nullptr, false);
  });
}
SIMGPU_API cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                CUstream hStream) {
  return api_call("cuMemcpyDtoDAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return copy(lock, line(dstDevice, srcDevice, ByteCount), Side::device, Side::device, hStream, true);
  });
}

SIMGPU_API cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                        CUcontext srcContext, size_t ByteCount) {
  return api_call("cuMemcpyPeer", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_TRY(peer_contexts_exist(dstContext, srcContext));
    return copy(lock, line(dstDevice, srcDevice, ByteCount), Side::device, Side::device, nullptr, false);
  });
}
SIMGPU_API cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                             CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  return api_call("cuMemcpyPeerAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_TRY(peer_contexts_exist(dstContext, srcContext));
    return copy(lock, line(dstDevice, srcDevice, ByteCount), Side::device, Side::device, hStream, true);
  });
}

SIMGPU_API cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount) {
  return api_call("cuMemcpyHtoA", kNeedsInit, [&](Lock& lock) -> CUresult {
    uint64_t to;
    SIMGPU_TRY(array_line(dstArray, dstOffset, ByteCount, to));
    return copy(lock, line(to, address_of(srcHost), ByteCount), Side::host, Side::device, nullptr, false);
  });
}
SIMGPU_API cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount,
                                CUstream hStream) {
  return api_call("cuMemcpyHtoAAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    uint64_t to;
    SIMGPU_TRY(array_line(dstArray, dstOffset, ByteCount, to));
    return copy(lock, line(to, address_of(srcHost), ByteCount), Side::host, Side::device, hStream, true);
  });
}

SIMGPU_API cuMemcpyAtoH_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return api_call("cuMemcpyAtoH", kNeedsInit, [&](Lock& lock) -> CUresult {
    uint64_t from;
    SIMGPU_TRY(array_line(srcArray, srcOffset, ByteCount, from));
    return copy(lock, line(address_of(dstHost), from, ByteCount), Side::device, Side::host, nullptr, false);
  });
}
SIMGPU_API cuMemcpyAtoHAsync_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                                CUstream hStream) {
  return api_call("cuMemcpyAtoHAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    uint64_t from;
    SIMGPU_TRY(array_line(srcArray, srcOffset, ByteCount, from));
    return copy(lock, line(address_of(dstHost), from, ByteCount), Side::device, Side::host, hStream, true);
  });
}

SIMGPU_API cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
  return api_call("cuMemcpyDtoA", kNeedsInit, [&](Lock& lock) -> CUresult {
    uint64_t to;
    SIMGPU_TRY(array_line(dstArray, dstOffset, ByteCount, to));
    return copy(lock, line(to, srcDevice, ByteCount), Side::device, Side::device, nullptr, false);
  });
}

SIMGPU_API cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return api_call("cuMemcpyAtoD", kNeedsInit, [&](Lock& lock) -> CUresult {
    uint64_t from;
    SIMGPU_TRY(array_line(srcArray, srcOffset, ByteCount, from));
    return copy(lock, line(dstDevice, from, ByteCount), Side::device, Side::device, nullptr, false);
  });
}

SIMGPU_API cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                           size_t ByteCount) {
  return api_call("cuMemcpyAtoA", kNeedsInit, [&](Lock& lock) -> CUresult {
    uint64_t from, to;
    SIMGPU_TRY(array_line(srcArray, srcOffset, ByteCount, from));
    SIMGPU_TRY(array_line(dstArray, dstOffset, ByteCount, to));
    return copy(lock, line(to, from, ByteCount), Side::device, Side::device, nullptr, false);
  });
}

SIMGPU_API cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
  return api_call("cuMemcpy2D", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(pCopy, CUDA_ERROR_INVALID_VALUE);
    CopyShape shape;
    Side src, dst;
    SIMGPU_TRY(shape_of(*pCopy, true, shape, src, dst));
    return copy(lock, shape, src, dst, nullptr, false);
  });
}
SIMGPU_API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return api_call("cuMemcpy2DAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(pCopy, CUDA_ERROR_INVALID_VALUE);
    CopyShape shape;
    Side src, dst;
    SIMGPU_TRY(shape_of(*pCopy, true, shape, src, dst));
    return copy(lock, shape, src, dst, hStream, true);
  });
}

SIMGPU_API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
  return api_call("cuMemcpy2DUnaligned", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(pCopy, CUDA_ERROR_INVALID_VALUE);
    CopyShape shape;
    Side src, dst;
    SIMGPU_TRY(shape_of(*pCopy, false, shape, src, dst));
    return copy(lock, shape, src, dst, nullptr, false);
  });
}

SIMGPU_API cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
  return api_call("cuMemcpy3D", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(pCopy, CUDA_ERROR_INVALID_VALUE);
    CopyShape shape;
    Side src, dst;
    SIMGPU_TRY(shape_of(*pCopy, shape, src, dst));
    return copy(lock, shape, src, dst, nullptr, false);
  });
}
SIMGPU_API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return api_call("cuMemcpy3DAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(pCopy, CUDA_ERROR_INVALID_VALUE);
    CopyShape shape;
    Side src, dst;
    SIMGPU_TRY(shape_of(*pCopy, shape, src, dst));
    return copy(lock, shape, src, dst, hStream, true);
  });
}

SIMGPU_API cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  return api_call("cuMemcpy3DPeer", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(pCopy, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(peer_contexts_exist(pCopy->dstContext, pCopy->srcContext));
    CopyShape shape;
    Side src, dst;
    SIMGPU_TRY(shape_of(without_contexts(*pCopy), shape, src, dst));
    return copy(lock, shape, src, dst, nullptr, false);
  });
}
SIMGPU_API cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  return api_call("cuMemcpy3DPeerAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(pCopy, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(peer_contexts_exist(pCopy->dstContext, pCopy->srcContext));
    CopyShape shape;
    Side src, dst;
    SIMGPU_TRY(shape_of(without_contexts(*pCopy), shape, src, dst));
    return copy(lock, shape, src, dst, hStream, true);
  });
}

SIMGPU_API cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return api_call("cuMemsetD8", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, 0, uc, 1, N, 1, nullptr, false);
  });
}
SIMGPU_API cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return api_call("cuMemsetD8Async", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, 0, uc, 1, N, 1, hStream, true);
  });
}
SIMGPU_API cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                           size_t Height) {
  return api_call("cuMemsetD2D8", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, dstPitch, uc, 1, Width, Height, nullptr, false);
  });
}
SIMGPU_API cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                             size_t Height, CUstream hStream) {
  return api_call("cuMemsetD2D8Async", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, dstPitch, uc, 1, Width, Height, hStream, true);
  });
}
SIMGPU_API cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return api_call("cuMemsetD16", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, 0, us, 2, N, 1, nullptr, false);
  });
}
SIMGPU_API cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return api_call("cuMemsetD16Async", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, 0, us, 2, N, 1, hStream, true);
  });
}
SIMGPU_API cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                            size_t Height) {
  return api_call("cuMemsetD2D16", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, dstPitch, us, 2, Width, Height, nullptr, false);
  });
}
SIMGPU_API cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                              size_t Height, CUstream hStream) {
  return api_call("cuMemsetD2D16Async", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, dstPitch, us, 2, Width, Height, hStream, true);
  });
}
SIMGPU_API cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return api_call("cuMemsetD32", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, 0, ui, 4, N, 1, nullptr, false);
  });
}
SIMGPU_API cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return api_call("cuMemsetD32Async", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, 0, ui, 4, N, 1, hStream, true);
  });
}
SIMGPU_API cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                            size_t Height) {
  return api_call("cuMemsetD2D32", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, dstPitch, ui, 4, Width, Height, nullptr, false);
  });
}
SIMGPU_API cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                              size_t Height, CUstream hStream) {
  return api_call("cuMemsetD2D32Async", kNeedsInit, [&](Lock& lock) -> CUresult {
    return fill(lock, dstDevice, dstPitch, ui, 4, Width, Height, hStream, true);
  });
}
