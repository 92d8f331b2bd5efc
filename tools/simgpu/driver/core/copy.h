// From API arguments to CopyBody and MemsetBody: argument rules, direction, staging of pageable memory,
// waiting.
#pragma once
#include "tools/simgpu/driver/core/ops.h"

namespace simgpu::driver {
enum class Side : uint8_t { host, device, unified };  // what the call says about an address
// Copies of one box; `async` false waits as the synchronous API does. NULL stream: the calling convention's
// default one.
CUresult copy(Lock& lock, const CopyShape& shape, Side src, Side dst, CUstream stream, bool async);
CUresult fill(Lock& lock, uint64_t dst, uint64_t pitch, uint32_t value, unsigned element_bytes,
              uint64_t width, uint64_t height, CUstream stream, bool async);
// The body alone, for graph nodes: no staging.
CUresult make_copy(const CopyShape& shape, Side src, Side dst, const Context& context,
                   std::shared_ptr<CopyBody>& out);
// CUDA_MEMCPY2D / CUDA_MEMCPY3D(_PEER) with arrays and offsets, as a shape.
CUresult shape_of(const CUDA_MEMCPY2D& p, bool aligned_rules, CopyShape& shape, Side& src, Side& dst);
CUresult shape_of(const CUDA_MEMCPY3D& p, CopyShape& shape, Side& src, Side& dst);
}  // namespace simgpu::driver
