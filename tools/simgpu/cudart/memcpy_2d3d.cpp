// Two- and three-dimensional copies, between flat memory and to, from and between arrays.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

// Everything a 2D copy needs; a null stream pointer means the synchronous form.
struct Copy2D {
  CUDA_MEMCPY2D_v2 native{};

  void from_memory(CUmemorytype type, const void* pointer, size_t pitch) {
    native.srcMemoryType = type;
    native.srcHost = type == CU_MEMORYTYPE_HOST ? pointer : nullptr;
    native.srcDevice = type == CU_MEMORYTYPE_HOST ? 0 : to_driver(pointer);
    native.srcPitch = pitch;
  }
  void to_memory(CUmemorytype type, void* pointer, size_t pitch) {
    native.dstMemoryType = type;
    native.dstHost = type == CU_MEMORYTYPE_HOST ? pointer : nullptr;
    native.dstDevice = type == CU_MEMORYTYPE_HOST ? 0 : to_driver(pointer);
    native.dstPitch = pitch;
  }
  void from_array(cudaArray_const_t array, size_t x, size_t y) {
    native.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    native.srcArray = to_driver(array);
    native.srcXInBytes = x;
    native.srcY = y;
  }
  void to_array(cudaArray_const_t array, size_t x, size_t y) {
    native.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    native.dstArray = to_driver(array);
    native.dstXInBytes = x;
    native.dstY = y;
  }
  cudaError_t run(Flavour flavour, const cudaStream_t* stream, size_t width, size_t height) {
    if (width == 0 || height == 0) return cudaSuccess;
    native.WidthInBytes = width;
    native.Height = height;
    // "Unaligned" only lifts a restriction on pitches; the runtime's synchronous copies have none.
    return to_runtime(stream == nullptr ? driver.cuMemcpy2DUnaligned[flavour](&native)
                                        : driver.cuMemcpy2DAsync[flavour](&native, *stream));
  }
};

cudaError_t copy_2d(Flavour flavour, void* destination, size_t destination_pitch, const void* source,
                    size_t source_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                    const cudaStream_t* stream) {
  CopySides sides{};
  if (!sides_of(kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  if (width > destination_pitch || width > source_pitch) return cudaErrorInvalidPitchValue;
  Copy2D copy;
  copy.from_memory(sides.source, source, source_pitch);
  copy.to_memory(sides.destination, destination, destination_pitch);
  return copy.run(flavour, stream, width, height);
}

// An array is always on the device: of the kind, only the other side counts.
cudaError_t copy_2d_to_array(Flavour flavour, cudaArray_t destination, size_t x, size_t y, const void* source,
                             size_t pitch, size_t width, size_t height, cudaMemcpyKind kind,
                             const cudaStream_t* stream) {
  CopySides sides{};
  if (!sides_of(kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  if (width > pitch) return cudaErrorInvalidPitchValue;
  Copy2D copy;
  copy.from_memory(sides.source, source, pitch);
  copy.to_array(destination, x, y);
  return copy.run(flavour, stream, width, height);
}

cudaError_t copy_2d_from_array(Flavour flavour, void* destination, size_t pitch, cudaArray_const_t source,
                               size_t x, size_t y, size_t width, size_t height, cudaMemcpyKind kind,
                               const cudaStream_t* stream) {
  CopySides sides{};
  if (!sides_of(kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  if (width > pitch) return cudaErrorInvalidPitchValue;
  Copy2D copy;
  copy.from_array(source, x, y);
  copy.to_memory(sides.destination, destination, pitch);
  return copy.run(flavour, stream, width, height);
}

cudaError_t copy_2d_array_to_array(Flavour flavour, cudaArray_t destination, size_t destination_x,
                                   size_t destination_y, cudaArray_const_t source, size_t source_x,
                                   size_t source_y, size_t width, size_t height, cudaMemcpyKind kind) {
  CopySides sides{};
  if (!sides_of(kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  Copy2D copy;
  copy.from_array(source, source_x, source_y);
  copy.to_array(destination, destination_x, destination_y);
  return copy.run(flavour, nullptr, width, height);
}

// The old linear copies fill an array row by row from a start position. Up to three rectangles: the rest of
// the first row, whole rows, the start of the last row. `rectangle` copies one, given the bytes already done.
template <typename Rectangle>
cudaError_t in_rectangles(cudaArray_const_t array, size_t x, size_t y, size_t count, Rectangle&& rectangle) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor{};
  size_t element = 0;
  if (const cudaError_t error = describe(to_driver(array), &descriptor, &element); error != cudaSuccess) {
    return error;
  }
  const size_t row = descriptor.Width * element;
  if (row == 0) return cudaErrorNotSupported;
  if (x >= row) return cudaErrorInvalidValue;
  size_t done = 0;
  const auto step = [&](size_t column, size_t width, size_t height) -> cudaError_t {
    const cudaError_t error = rectangle(done, column, y, width, height, row);
    done += width * height;
    y += height;
    return error;
  };
  if (x != 0 && count != 0) {
    const size_t width = row - x < count ? row - x : count;
    if (const cudaError_t error = step(x, width, 1); error != cudaSuccess) return error;
  }
  if (const size_t rows = (count - done) / row; rows != 0) {
    if (const cudaError_t error = step(0, row, rows); error != cudaSuccess) return error;
  }
  if (done < count) return step(0, count - done, 1);
  return cudaSuccess;
}

cudaError_t copy_to_array(Flavour flavour, cudaArray_t destination, size_t x, size_t y, const void* source,
                          size_t count, cudaMemcpyKind kind, const cudaStream_t* stream) {
  return in_rectangles(destination, x, y, count,
                       [&](size_t done, size_t column, size_t line, size_t width, size_t height, size_t row) {
                         return copy_2d_to_array(flavour, destination, column, line,
                                                 static_cast<const char*>(source) + done, row, width, height,
                                                 kind, stream);
                       });
}

cudaError_t copy_from_array(Flavour flavour, void* destination, cudaArray_const_t source, size_t x, size_t y,
                            size_t count, cudaMemcpyKind kind, const cudaStream_t* stream) {
  return in_rectangles(source, x, y, count,
                       [&](size_t done, size_t column, size_t line, size_t width, size_t height, size_t row) {
                         return copy_2d_from_array(flavour, static_cast<char*>(destination) + done, row,
                                                   source, column, line, width, height, kind, stream);
                       });
}

cudaError_t copy_array_to_array(Flavour flavour, cudaArray_t destination, size_t destination_x,
                                size_t destination_y, cudaArray_const_t source, size_t source_x,
                                size_t source_y, size_t count, cudaMemcpyKind kind) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor{};
  size_t element = 0;
  if (const cudaError_t error = describe(to_driver(destination), &descriptor, &element);
      error != cudaSuccess) {
    return error;
  }
  // Both sides wrap at their own row ends: cut at the source's, then at the destination's.
  const size_t row = descriptor.Width * element;
  if (row == 0) return cudaErrorNotSupported;
  size_t linear = destination_y * row + destination_x;
  return in_rectangles(
      source, source_x, source_y, count,
      [&](size_t, size_t column, size_t line, size_t width, size_t height, size_t) -> cudaError_t {
        for (size_t h = 0; h < height; ++h) {
          for (size_t offset = 0; offset < width;) {
            const size_t x = linear % row;
            const size_t piece = row - x < width - offset ? row - x : width - offset;
            const cudaError_t error = copy_2d_array_to_array(flavour, destination, x, linear / row, source,
                                                             column + offset, line + h, piece, 1, kind);
            if (error != cudaSuccess) return error;
            offset += piece;
            linear += piece;
          }
        }
        return cudaSuccess;
      });
}

cudaError_t copy_3d(Flavour flavour, const cudaMemcpy3DParms* parameters, const cudaStream_t* stream) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D_v2 native{};
  if (const cudaError_t error = to_driver(*parameters, &native); error != cudaSuccess) return error;
  if (native.WidthInBytes == 0 || native.Height == 0 || native.Depth == 0) return cudaSuccess;
  return to_runtime(stream == nullptr ? driver.cuMemcpy3D[flavour](&native)
                                      : driver.cuMemcpy3DAsync[flavour](&native, *stream));
}

cudaError_t copy_3d_peer(Flavour flavour, const cudaMemcpy3DPeerParms* parameters,
                         const cudaStream_t* stream) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D_PEER_v1 native{};
  if (const cudaError_t error = to_driver(*parameters, &native); error != cudaSuccess) return error;
  if (native.WidthInBytes == 0 || native.Height == 0 || native.Depth == 0) return cudaSuccess;
  return to_runtime(stream == nullptr ? driver.cuMemcpy3DPeer[flavour](&native)
                                      : driver.cuMemcpy3DPeerAsync[flavour](&native, *stream));
}

}  // namespace

CUDART_DUAL(_ptds, cudaMemcpy2D,
            (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
             cudaMemcpyKind kind),
            copy_2d, dst, dpitch, src, spitch, width, height, kind, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpy2DAsync,
            (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
             cudaMemcpyKind kind, cudaStream_t stream),
            copy_2d, dst, dpitch, src, spitch, width, height, kind, &stream)
CUDART_DUAL(_ptds, cudaMemcpy2DToArray,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t spitch, size_t width,
             size_t height, cudaMemcpyKind kind),
            copy_2d_to_array, dst, wOffset, hOffset, src, spitch, width, height, kind, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpy2DToArrayAsync,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t spitch, size_t width,
             size_t height, cudaMemcpyKind kind, cudaStream_t stream),
            copy_2d_to_array, dst, wOffset, hOffset, src, spitch, width, height, kind, &stream)
CUDART_DUAL(_ptds, cudaMemcpy2DFromArray,
            (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
             size_t height, cudaMemcpyKind kind),
            copy_2d_from_array, dst, dpitch, src, wOffset, hOffset, width, height, kind, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpy2DFromArrayAsync,
            (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
             size_t height, cudaMemcpyKind kind, cudaStream_t stream),
            copy_2d_from_array, dst, dpitch, src, wOffset, hOffset, width, height, kind, &stream)
CUDART_DUAL(_ptds, cudaMemcpy2DArrayToArray,
            (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
             size_t hOffsetSrc, size_t width, size_t height, cudaMemcpyKind kind),
            copy_2d_array_to_array, dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height,
            kind)
CUDART_DUAL(_ptds, cudaMemcpyToArray,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count,
             cudaMemcpyKind kind),
            copy_to_array, dst, wOffset, hOffset, src, count, kind, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpyToArrayAsync,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count,
             cudaMemcpyKind kind, cudaStream_t stream),
            copy_to_array, dst, wOffset, hOffset, src, count, kind, &stream)
CUDART_DUAL(_ptds, cudaMemcpyFromArray,
            (void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
             cudaMemcpyKind kind),
            copy_from_array, dst, src, wOffset, hOffset, count, kind, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpyFromArrayAsync,
            (void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
             cudaMemcpyKind kind, cudaStream_t stream),
            copy_from_array, dst, src, wOffset, hOffset, count, kind, &stream)
CUDART_DUAL(_ptds, cudaMemcpyArrayToArray,
            (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
             size_t hOffsetSrc, size_t count, cudaMemcpyKind kind),
            copy_array_to_array, dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, count, kind)
CUDART_DUAL(_ptds, cudaMemcpy3D, (const cudaMemcpy3DParms* p), copy_3d, p, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpy3DAsync, (const cudaMemcpy3DParms* p, cudaStream_t stream), copy_3d, p, &stream)
CUDART_DUAL(_ptds, cudaMemcpy3DPeer, (const cudaMemcpy3DPeerParms* p), copy_3d_peer, p, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpy3DPeerAsync, (const cudaMemcpy3DPeerParms* p, cudaStream_t stream), copy_3d_peer,
            p, &stream)
