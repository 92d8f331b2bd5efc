// Batches of copies. The copies of one batch have no order among themselves; the batch has its place in the
// stream.
#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/copy.h"
#include "tools/simgpu/driver/core/hooks.h"

using namespace simgpu::driver;

namespace {
CUresult check_order(CUmemcpySrcAccessOrder order) {
  const bool known = order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
                     order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
                     order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult one_copy(Lock& lock, const CopyShape& shape, CUmemcpySrcAccessOrder order, CUstream stream) {
  // DURING_API_CALL: the source may change once the call is over, which staging or waiting ensures.
  SIMGPU_TRY(copy(lock, shape, Side::unified, Side::unified, stream, true));
  if (order != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL) return CUDA_SUCCESS;
  std::shared_ptr<Stream> target;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(stream, target, context));
  Location src;
  SIMGPU_TRY(locate(shape.src.address, 1, src));
  return src.where == Where::pageable || target->capture ? CUDA_SUCCESS
                                                         : wait_for(lock, *context, stream_targets(*target));
}

bool is_default_stream(CUstream stream) {
  return stream == CU_STREAM_LEGACY || (!stream && thread_state().per_thread_depth == 0);
}

CUresult batch(Lock& lock, CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
               CUmemcpyAttributes* attrs, size_t* indices, size_t attribute_count, CUstream stream,
               size_t* failed) {
  if (failed) *failed = SIZE_MAX;
  SIMGPU_REQUIRE(
      dsts && srcs && sizes && count && attrs && indices && attribute_count && attribute_count <= count,
      CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!is_default_stream(stream), CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_REQUIRE(indices[0] == 0, CUDA_ERROR_INVALID_VALUE);
  for (size_t k = 0; k < attribute_count; ++k) {
    SIMGPU_REQUIRE(indices[k] < count && (k == 0 || indices[k] > indices[k - 1]), CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(check_order(attrs[k].srcAccessOrder));
  }
  size_t attribute = 0;
  for (size_t i = 0; i < count; ++i) {
    while (attribute + 1 < attribute_count && indices[attribute + 1] <= i) ++attribute;
    CopyShape shape;
    shape.src.address = srcs[i];
    shape.dst.address = dsts[i];
    shape.width = sizes[i];
    const CUresult result =
        sizes[i] ? one_copy(lock, shape, attrs[attribute].srcAccessOrder, stream) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) continue;
    if (failed) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult operand_place(const CUmemcpy3DOperand& operand, const CUextent3D& extent, CopyPlace& place,
                       unsigned& element_bytes) {
  switch (operand.type) {
    case CU_MEMCPY_OPERAND_TYPE_POINTER: {
      // Elements of a pointer operand are bytes unless the other side is an array.
      const uint64_t row = operand.op.ptr.rowLength ? operand.op.ptr.rowLength : extent.width;
      const uint64_t rows = operand.op.ptr.layerHeight ? operand.op.ptr.layerHeight : extent.height;
      SIMGPU_REQUIRE(row >= extent.width && rows >= extent.height, CUDA_ERROR_INVALID_VALUE);
      place = {operand.op.ptr.ptr, row * element_bytes, row * element_bytes * rows};
      return CUDA_SUCCESS;
    }
    case CU_MEMCPY_OPERAND_TYPE_ARRAY: {
      SIMGPU_REQUIRE(g_array_place, CUDA_ERROR_NOT_SUPPORTED);
      ArrayPlace a;
      SIMGPU_TRY(g_array_place(operand.op.array.array, a));
      const auto& o = operand.op.array.offset;
      SIMGPU_REQUIRE((o.x + extent.width) * a.element_bytes <= a.row_bytes &&
                         o.y + extent.height <= std::max<uint64_t>(1, a.height) &&
                         o.z + extent.depth <= std::max<uint64_t>(1, a.depth),
                     CUDA_ERROR_INVALID_VALUE);
      place = {a.address + o.z * a.slice + o.y * a.pitch + o.x * a.element_bytes, a.pitch, a.slice};
      element_bytes = a.element_bytes;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult batch3d(Lock& lock, size_t count, CUDA_MEMCPY3D_BATCH_OP* ops, unsigned long long flags,
                 CUstream stream, size_t* failed) {
  if (failed) *failed = SIZE_MAX;
  SIMGPU_REQUIRE(count && ops && flags == 0, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!is_default_stream(stream), CUDA_ERROR_INVALID_HANDLE);
  for (size_t i = 0; i < count; ++i) {
    const auto& op = ops[i];
    const CUresult result = [&]() -> CUresult {
      SIMGPU_REQUIRE(op.extent.width && op.extent.height && op.extent.depth, CUDA_ERROR_INVALID_VALUE);
      SIMGPU_TRY(check_order(op.srcAccessOrder));
      CopyShape shape;
      unsigned element = 1;
      // The array side, if any, tells the element size of both.
      if (op.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
        SIMGPU_TRY(operand_place(op.src, op.extent, shape.src, element));
      SIMGPU_TRY(operand_place(op.dst, op.extent, shape.dst, element));
      SIMGPU_TRY(operand_place(op.src, op.extent, shape.src, element));
      shape.width = op.extent.width * element;
      shape.height = op.extent.height;
      shape.depth = op.extent.depth;
      return one_copy(lock, shape, op.srcAccessOrder, stream);
    }();
    if (result == CUDA_SUCCESS) continue;
    if (failed) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                 CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                                 CUstream hStream) {
  return api_call("cuMemcpyBatchAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return batch(lock, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream, nullptr);
  });
}
SIMGPU_API cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                              CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                              CUstream hStream) {
  return api_call("cuMemcpyBatchAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return batch(lock, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream, failIdx);
  });
}
SIMGPU_API cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                   CUstream hStream) {
  return api_call("cuMemcpy3DBatchAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return batch3d(lock, numOps, opList, flags, hStream, nullptr);
  });
}
SIMGPU_API cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                unsigned long long flags, CUstream hStream) {
  return api_call("cuMemcpy3DBatchAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return batch3d(lock, numOps, opList, flags, hStream, failIdx);
  });
}
