#include "tools/simgpu/driver/core/copy.h"

#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/hooks.h"

namespace simgpu::driver {
CUresult (*g_array_place)(CUarray, ArrayPlace&) = nullptr;
CUresult (*g_free_pool_memory)(Lock&, const AllocationRef&) = nullptr;
CUmemoryPool (*g_pool_of)(const Allocation&) = nullptr;
const exec::TextureSource* (*g_texture_source)(Context&) = nullptr;

namespace {
// Whole extent of one side of a box, for bounds checks.
uint64_t extent(const CopyPlace& place, const CopyShape& shape) {
  return (shape.depth - 1) * place.slice + (shape.height - 1) * place.pitch + shape.width;
}

CUresult locate_side(const CopyPlace& place, const CopyShape& shape, Side side, Location& out) {
  SIMGPU_REQUIRE(place.address, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(locate(place.address, extent(place, shape), out));
  if (side == Side::device) SIMGPU_REQUIRE(out.allocation, CUDA_ERROR_INVALID_VALUE);
  if (side == Side::host) SIMGPU_REQUIRE(out.where != Where::device, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}
// Mapped device memory nobody has been given access to cannot be copied either.
bool may_copy(const Location& side, const Context& context, bool writes) {
  if (!side.allocation || side.allocation->kind != MemoryKind::mapped || side.allocation->device < 0)
    return true;
  const std::vector<uint8_t>& rights = side.allocation->rights;
  const uint8_t needed = writes ? 2 : 1;
  return (rights[size_t(context.device->ordinal)] | rights[size_t(side.allocation->device)]) & needed;
}
}  // namespace

CUresult make_copy(const CopyShape& shape, Side src_side, Side dst_side, const Context& context,
                   std::shared_ptr<CopyBody>& out) {
  Location src, dst;
  if (shape.bytes()) {
    SIMGPU_TRY(locate_side(shape.src, shape, src_side, src));
    SIMGPU_TRY(locate_side(shape.dst, shape, dst_side, dst));
    SIMGPU_REQUIRE(may_copy(src, context, false) && may_copy(dst, context, true), CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!dst.allocation || !dst.allocation->read_only || dst.where == Where::device,
                   CUDA_ERROR_INVALID_VALUE);
  }
  // Managed memory counts as being where its copy partner is not.
  if (src.where == Where::managed && src.device < 0) src.device = context.device->ordinal;
  if (dst.where == Where::managed && dst.device < 0) dst.device = context.device->ordinal;
  int engine = context.device->ordinal;
  if (src.where == Where::device)
    engine = src.device;
  else if (dst.where == Where::device)
    engine = dst.device;
  out = std::make_shared<CopyBody>(shape, src, dst, engine);
  return CUDA_SUCCESS;
}

CUresult copy(Lock& lock, const CopyShape& shape, Side src_side, Side dst_side, CUstream handle, bool async) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(handle, stream, context));
  if (!async) {
    SIMGPU_TRY(capture_check(CaptureQuestion::legacy_use, context.get(), stream.get()));
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context.get()));
  }
  SIMGPU_TRY(fault_point("copy", CUDA_ERROR_LAUNCH_FAILED));
  if (!shape.bytes()) return CUDA_SUCCESS;
  std::shared_ptr<CopyBody> body;
  SIMGPU_TRY(make_copy(shape, src_side, dst_side, *context, body));
  const bool src_pageable = body->src.where == Where::pageable,
             dst_pageable = body->dst.where == Where::pageable;
  if (async && !stream->capture && src_pageable && !dst_pageable) {
    // The call returns once pageable memory has been read; the program may change it from then on.
    body->staged.resize(shape.bytes());
    for (uint64_t z = 0; z < shape.depth; ++z) {
      for (uint64_t y = 0; y < shape.height; ++y) {
        memcpy(body->staged.data() + (z * shape.height + y) * shape.width,
               reinterpret_cast<const void*>(shape.src.address + z * shape.src.slice + y * shape.src.pitch),
               shape.width);
      }
    }
  }
  OpRef op;
  SIMGPU_TRY(submit(lock, stream, body, &op));
  if (!op) return CUDA_SUCCESS;  // captured
  const bool device_to_device = body->copy_kind() == 8 || body->copy_kind() == 10;
  const bool wait = async
                        ? dst_pageable
                        : !device_to_device || (body->src.allocation && body->src.allocation->sync_memops) ||
                              (body->dst.allocation && body->dst.allocation->sync_memops);
  if (wait) return wait_for(lock, *context, {op});
  return CUDA_SUCCESS;
}

CUresult fill(Lock& lock, uint64_t dst, uint64_t pitch, uint32_t value, unsigned element_bytes,
              uint64_t width, uint64_t height, CUstream handle, bool async) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(handle, stream, context));
  if (!async) {
    SIMGPU_TRY(capture_check(CaptureQuestion::legacy_use, context.get(), stream.get()));
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context.get()));
  }
  SIMGPU_TRY(fault_point("memset", CUDA_ERROR_LAUNCH_FAILED));
  if (!width || !height) return CUDA_SUCCESS;
  SIMGPU_REQUIRE(dst && dst % element_bytes == 0, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(height == 1 || (pitch % element_bytes == 0 && pitch >= width * element_bytes),
                 CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(width <= UINT64_MAX / element_bytes, CUDA_ERROR_INVALID_VALUE);
  Location where;
  SIMGPU_TRY(locate(dst, (height - 1) * pitch + width * element_bytes, where));
  SIMGPU_REQUIRE(where.allocation && may_copy(where, *context, true), CUDA_ERROR_INVALID_VALUE);
  OpRef op;
  SIMGPU_TRY(submit(
      lock, stream,
      std::make_shared<MemsetBody>(CopyPlace{dst, pitch, 0}, where, value, element_bytes, width, height),
      &op));
  if (!async && op && (where.where != Where::device || where.allocation->sync_memops))
    return wait_for(lock, *context, {op});
  return CUDA_SUCCESS;
}

namespace {
// One side of a 2-D or 3-D copy descriptor, reduced to address and pitches.
CUresult place_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, uint64_t x,
                  uint64_t y, uint64_t z, uint64_t pitch, uint64_t rows, const CopyShape& shape,
                  CopyPlace& place, Side& side) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      place.address = reinterpret_cast<uint64_t>(host);
      side = Side::host;
      break;
    case CU_MEMORYTYPE_DEVICE:
      place.address = device;
      side = Side::device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      place.address = device;
      side = Side::unified;
      break;
    case CU_MEMORYTYPE_ARRAY: {
      SIMGPU_REQUIRE(g_array_place, CUDA_ERROR_NOT_SUPPORTED);
      ArrayPlace a;
      SIMGPU_TRY(g_array_place(array, a));
      const bool fits = x + shape.width <= a.row_bytes &&
                        y + shape.height <= std::max<uint64_t>(1, a.height) &&
                        z + shape.depth <= std::max<uint64_t>(1, a.depth);
      SIMGPU_REQUIRE(!shape.bytes() || fits, CUDA_ERROR_INVALID_VALUE);
      place = {a.address + z * a.slice + y * a.pitch + x, a.pitch, a.slice};
      side = Side::device;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!pitch) pitch = x + shape.width;
  if (!rows) rows = y + shape.height;
  SIMGPU_REQUIRE(shape.height <= 1 || pitch >= shape.width, CUDA_ERROR_INVALID_VALUE);
  place.pitch = pitch;
  place.slice = pitch * rows;
  if (place.address) place.address += z * place.slice + y * pitch + x;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult shape_of(const CUDA_MEMCPY2D& p, bool aligned_rules, CopyShape& shape, Side& src, Side& dst) {
  constexpr uint64_t kMaxPitch = 2147483647;
  shape.width = p.WidthInBytes;
  shape.height = p.Height;
  if (aligned_rules) {
    SIMGPU_REQUIRE(p.srcPitch <= kMaxPitch && p.dstPitch <= kMaxPitch, CUDA_ERROR_INVALID_VALUE);
  }
  SIMGPU_TRY(place_of(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, 0,
                      p.srcPitch, 0, shape, shape.src, src));
  return place_of(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, 0, p.dstPitch,
                  0, shape, shape.dst, dst);
}

CUresult shape_of(const CUDA_MEMCPY3D& p, CopyShape& shape, Side& src, Side& dst) {
  SIMGPU_REQUIRE(p.srcLOD == 0 && p.dstLOD == 0, CUDA_ERROR_INVALID_VALUE);
  shape.width = p.WidthInBytes;
  shape.height = p.Height;
  shape.depth = p.Depth;
  SIMGPU_TRY(place_of(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, p.srcZ,
                      p.srcPitch, p.srcHeight, shape, shape.src, src));
  return place_of(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, p.dstZ,
                  p.dstPitch, p.dstHeight, shape, shape.dst, dst);
}
}  // namespace simgpu::driver
