// Copies, memsets, prefetches. Linear ones name their bytes exactly; 2D, 3D and array ones are described by
// kind and total only, with the covering range where it is linear memory.
#include "runtime/exec/hook_tables.h"

namespace shunt::exec {
using model::Access;
using model::OpKind;

namespace {
inline void linear(model::Op& op, uint64_t dst, uint64_t src, uint64_t bytes) {
  op.kind = OpKind::copy_linear;
  op.bytes = bytes;
  op.add_range(dst, bytes, Access::write);
  op.add_range(src, bytes, Access::read);
}
inline uint64_t u(const void* p) { return reinterpret_cast<uint64_t>(p); }
inline void fill(model::Op& op, uint64_t dst, uint64_t bytes) {
  op.kind = OpKind::memset;
  op.bytes = bytes;
  op.add_range(dst, bytes, Access::write);
}
inline void fill_2d(model::Op& op, uint64_t dst, uint64_t pitch, uint64_t width_bytes, uint64_t height) {
  op.kind = OpKind::memset;
  op.bytes = width_bytes * height;
  op.add_range(dst, height ? pitch * (height - 1) + width_bytes : 0, Access::write);
}
}  // namespace

SHUNT_BEFORE(cuMemcpy, CUdeviceptr& dst, CUdeviceptr& src, size_t& n) { linear(op, dst, src, n); }
SHUNT_SAME(cuMemcpy_ptds, cuMemcpy)
SHUNT_BEFORE(cuMemcpyAsync, CUdeviceptr& dst, CUdeviceptr& src, size_t& n, CUstream& s) {
  linear(op, dst, src, n);
}
SHUNT_SAME(cuMemcpyAsync_ptsz, cuMemcpyAsync)
SHUNT_BEFORE(cuMemcpyHtoD_v2, CUdeviceptr& dst, const void*& src, size_t& n) { linear(op, dst, u(src), n); }
SHUNT_SAME(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2)
SHUNT_BEFORE(cuMemcpyDtoH_v2, void*& dst, CUdeviceptr& src, size_t& n) { linear(op, u(dst), src, n); }
SHUNT_SAME(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2)
SHUNT_BEFORE(cuMemcpyDtoD_v2, CUdeviceptr& dst, CUdeviceptr& src, size_t& n) { linear(op, dst, src, n); }
SHUNT_SAME(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2)
SHUNT_BEFORE(cuMemcpyHtoDAsync_v2, CUdeviceptr& dst, const void*& src, size_t& n, CUstream& s) {
  linear(op, dst, u(src), n);
}
SHUNT_SAME(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2)
SHUNT_BEFORE(cuMemcpyDtoHAsync_v2, void*& dst, CUdeviceptr& src, size_t& n, CUstream& s) {
  linear(op, u(dst), src, n);
}
SHUNT_SAME(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2)
SHUNT_BEFORE(cuMemcpyDtoDAsync_v2, CUdeviceptr& dst, CUdeviceptr& src, size_t& n, CUstream& s) {
  linear(op, dst, src, n);
}
SHUNT_SAME(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2)
SHUNT_BEFORE(cuMemcpyPeer, CUdeviceptr& dst, CUcontext& dc, CUdeviceptr& src, CUcontext& sc, size_t& n) {
  linear(op, dst, src, n);
  op.kind = OpKind::copy_peer;
}
SHUNT_SAME(cuMemcpyPeer_ptds, cuMemcpyPeer)
SHUNT_BEFORE(cuMemcpyPeerAsync, CUdeviceptr& dst, CUcontext& dc, CUdeviceptr& src, CUcontext& sc, size_t& n,
             CUstream& s) {
  linear(op, dst, src, n);
  op.kind = OpKind::copy_peer;
}
SHUNT_SAME(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync)

#define SHUNT_COPY_2D(symbol, ...)                            \
  SHUNT_BEFORE(symbol, const CUDA_MEMCPY2D*& c __VA_ARGS__) { \
    op.kind = OpKind::copy_2d;                                \
    if (c) op.bytes = c->WidthInBytes * c->Height;            \
  }
#define SHUNT_COPY_3D(symbol, Type, ...)                      \
  SHUNT_BEFORE(symbol, const Type*& c __VA_ARGS__) {          \
    op.kind = OpKind::copy_3d;                                \
    if (c) op.bytes = c->WidthInBytes * c->Height * c->Depth; \
  }
SHUNT_COPY_2D(cuMemcpy2D_v2)
SHUNT_SAME(cuMemcpy2D_v2_ptds, cuMemcpy2D_v2)
SHUNT_COPY_2D(cuMemcpy2DUnaligned_v2)
SHUNT_SAME(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned_v2)
SHUNT_COPY_2D(cuMemcpy2DAsync_v2, , CUstream& s)
SHUNT_SAME(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2)
SHUNT_COPY_3D(cuMemcpy3D_v2, CUDA_MEMCPY3D)
SHUNT_SAME(cuMemcpy3D_v2_ptds, cuMemcpy3D_v2)
SHUNT_COPY_3D(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, , CUstream& s)
SHUNT_SAME(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync_v2)
SHUNT_COPY_3D(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER)
SHUNT_SAME(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer)
SHUNT_COPY_3D(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, , CUstream& s)
SHUNT_SAME(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync)

#define SHUNT_FILL(sync_symbol, sync_ptds, async_symbol, async_ptsz, T)                              \
  SHUNT_BEFORE(sync_symbol, CUdeviceptr& dst, T& value, size_t& n) { fill(op, dst, n * sizeof(T)); } \
  SHUNT_SAME(sync_ptds, sync_symbol)                                                                 \
  SHUNT_BEFORE(async_symbol, CUdeviceptr& dst, T& value, size_t& n, CUstream& s) {                   \
    fill(op, dst, n * sizeof(T));                                                                    \
    op.aux = value;                                                                                  \
  }                                                                                                  \
  SHUNT_SAME(async_ptsz, async_symbol)
#define SHUNT_FILL_2D(sync_symbol, sync_ptds, async_symbol, async_ptsz, T)                                   \
  SHUNT_BEFORE(sync_symbol, CUdeviceptr& dst, size_t& pitch, T& value, size_t& w, size_t& h) {               \
    fill_2d(op, dst, pitch, w * sizeof(T), h);                                                               \
  }                                                                                                          \
  SHUNT_SAME(sync_ptds, sync_symbol)                                                                         \
  SHUNT_BEFORE(async_symbol, CUdeviceptr& dst, size_t& pitch, T& value, size_t& w, size_t& h, CUstream& s) { \
    fill_2d(op, dst, pitch, w * sizeof(T), h);                                                               \
  }                                                                                                          \
  SHUNT_SAME(async_ptsz, async_symbol)
SHUNT_FILL(cuMemsetD8_v2, cuMemsetD8_v2_ptds, cuMemsetD8Async, cuMemsetD8Async_ptsz, unsigned char)
SHUNT_FILL(cuMemsetD16_v2, cuMemsetD16_v2_ptds, cuMemsetD16Async, cuMemsetD16Async_ptsz, unsigned short)
SHUNT_FILL(cuMemsetD32_v2, cuMemsetD32_v2_ptds, cuMemsetD32Async, cuMemsetD32Async_ptsz, unsigned int)
SHUNT_FILL_2D(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, unsigned char)
SHUNT_FILL_2D(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz,
              unsigned short)
SHUNT_FILL_2D(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz,
              unsigned int)

SHUNT_BEFORE(cuMemPrefetchAsync_v2, CUdeviceptr& p, size_t& n, CUmemLocation& l, unsigned int& f,
             CUstream& s) {
  op.kind = OpKind::prefetch, op.bytes = n;
}
SHUNT_SAME(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2)

void append_copy_hooks(std::vector<HookEntry>& t) {
#define SHUNT_PAIR(a, b) SHUNT_HOOK(a), SHUNT_HOOK(b)
  for (const HookEntry& e : {SHUNT_PAIR(cuMemcpy, cuMemcpy_ptds),
                             SHUNT_PAIR(cuMemcpyAsync, cuMemcpyAsync_ptsz),
                             SHUNT_PAIR(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds),
                             SHUNT_PAIR(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds),
                             SHUNT_PAIR(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds),
                             SHUNT_PAIR(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz),
                             SHUNT_PAIR(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz),
                             SHUNT_PAIR(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz),
                             SHUNT_PAIR(cuMemcpyPeer, cuMemcpyPeer_ptds),
                             SHUNT_PAIR(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz),
                             SHUNT_PAIR(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds),
                             SHUNT_PAIR(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds),
                             SHUNT_PAIR(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz),
                             SHUNT_PAIR(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds),
                             SHUNT_PAIR(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz),
                             SHUNT_PAIR(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds),
                             SHUNT_PAIR(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz),
                             SHUNT_PAIR(cuMemsetD8_v2, cuMemsetD8_v2_ptds),
                             SHUNT_PAIR(cuMemsetD8Async, cuMemsetD8Async_ptsz),
                             SHUNT_PAIR(cuMemsetD16_v2, cuMemsetD16_v2_ptds),
                             SHUNT_PAIR(cuMemsetD16Async, cuMemsetD16Async_ptsz),
                             SHUNT_PAIR(cuMemsetD32_v2, cuMemsetD32_v2_ptds),
                             SHUNT_PAIR(cuMemsetD32Async, cuMemsetD32Async_ptsz),
                             SHUNT_PAIR(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds),
                             SHUNT_PAIR(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz),
                             SHUNT_PAIR(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds),
                             SHUNT_PAIR(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz),
                             SHUNT_PAIR(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds),
                             SHUNT_PAIR(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz),
                             SHUNT_PAIR(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz)})
    t.push_back(e);
#undef SHUNT_PAIR
}

}  // namespace shunt::exec
