// Filling memory with a byte.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

cudaError_t fill(Flavour flavour, void* pointer, int value, size_t count, const cudaStream_t* stream) {
  if (count == 0) return cudaSuccess;
  const auto byte = static_cast<unsigned char>(value);
  return to_runtime(stream == nullptr
                        ? driver.cuMemsetD8[flavour](to_driver(pointer), byte, count)
                        : driver.cuMemsetD8Async[flavour](to_driver(pointer), byte, count, *stream));
}

cudaError_t fill_2d(Flavour flavour, void* pointer, size_t pitch, int value, size_t width, size_t height,
                    const cudaStream_t* stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (height > 1 && width > pitch) return cudaErrorInvalidValue;
  const auto byte = static_cast<unsigned char>(value);
  return to_runtime(
      stream == nullptr
          ? driver.cuMemsetD2D8[flavour](to_driver(pointer), pitch, byte, width, height)
          : driver.cuMemsetD2D8Async[flavour](to_driver(pointer), pitch, byte, width, height, *stream));
}

cudaError_t fill_3d(Flavour flavour, cudaPitchedPtr pointer, int value, cudaExtent extent,
                    const cudaStream_t* stream) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
  if (extent.width > pointer.pitch && (extent.height > 1 || extent.depth > 1)) return cudaErrorInvalidValue;
  if (extent.depth > 1 && extent.height > pointer.ysize) return cudaErrorInvalidValue;
  // Slices that follow each other without a gap are one rectangle.
  if (extent.height == pointer.ysize || extent.depth == 1) {
    return fill_2d(flavour, pointer.ptr, pointer.pitch, value, extent.width, extent.height * extent.depth,
                   stream);
  }
  for (size_t z = 0; z < extent.depth; ++z) {
    char* slice = static_cast<char*>(pointer.ptr) + z * pointer.pitch * pointer.ysize;
    const cudaError_t error =
        fill_2d(flavour, slice, pointer.pitch, value, extent.width, extent.height, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

CUDART_DUAL(_ptds, cudaMemset, (void* devPtr, int value, size_t count), fill, devPtr, value, count, nullptr)
CUDART_DUAL(_ptsz, cudaMemsetAsync, (void* devPtr, int value, size_t count, cudaStream_t stream), fill,
            devPtr, value, count, &stream)
CUDART_DUAL(_ptds, cudaMemset2D, (void* devPtr, size_t pitch, int value, size_t width, size_t height),
            fill_2d, devPtr, pitch, value, width, height, nullptr)
CUDART_DUAL(_ptsz, cudaMemset2DAsync,
            (void* devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
            fill_2d, devPtr, pitch, value, width, height, &stream)
CUDART_DUAL(_ptds, cudaMemset3D, (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent), fill_3d,
            pitchedDevPtr, value, extent, nullptr)
CUDART_DUAL(_ptsz, cudaMemset3DAsync,
            (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent, cudaStream_t stream), fill_3d,
            pitchedDevPtr, value, extent, &stream)
