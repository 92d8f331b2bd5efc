// CUDA arrays and mipmapped arrays.
#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

static_assert(sizeof(cudaArrayMemoryRequirements) == sizeof(CUDA_ARRAY_MEMORY_REQUIREMENTS));
static_assert(sizeof(cudaArraySparseProperties) == sizeof(CUDA_ARRAY_SPARSE_PROPERTIES));

cudaError_t make_array(cudaArray_t* array, const cudaChannelFormatDesc* description, const cudaExtent& extent,
                       unsigned flags) {
  if (array == nullptr || description == nullptr) return cudaErrorInvalidValue;
  ArrayFormat format{};
  if (!to_driver(*description, &format)) return cudaErrorInvalidChannelDescriptor;
  const CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor = array_descriptor(format, extent, flags);
  return to_runtime(driver.cuArray3DCreate(reinterpret_cast<CUarray*>(array), &descriptor));
}

cudaError_t array_info(cudaChannelFormatDesc* description, cudaExtent* extent, unsigned* flags,
                       cudaArray_const_t array) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor{};
  size_t bytes = 0;
  if (const cudaError_t error = describe(to_driver(array), &descriptor, &bytes); error != cudaSuccess) {
    return error;
  }
  if (description != nullptr)
    *description = to_runtime(ArrayFormat{descriptor.Format, descriptor.NumChannels});
  if (extent != nullptr) *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
  if (flags != nullptr) *flags = descriptor.Flags;
  return cudaSuccess;
}

}  // namespace

CUDART_API cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width,
                                       size_t height, unsigned int flags) {
  return with_context([&] { return make_array(array, desc, {width, height, 0}, flags); });
}

CUDART_API cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                         cudaExtent extent, unsigned int flags) {
  return with_context([&] { return make_array(array, desc, extent, flags); });
}

CUDART_API cudaError_t cudaFreeArray(cudaArray_t array) {
  return with_context([&]() -> cudaError_t {
    if (array == nullptr) return cudaSuccess;
    return to_runtime(driver.cuArrayDestroy(to_driver(array)));
  });
}

CUDART_API cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* mipmappedArray,
                                                const cudaChannelFormatDesc* desc, cudaExtent extent,
                                                unsigned int numLevels, unsigned int flags) {
  return with_context([&]() -> cudaError_t {
    if (mipmappedArray == nullptr || desc == nullptr) return cudaErrorInvalidValue;
    ArrayFormat format{};
    if (!to_driver(*desc, &format)) return cudaErrorInvalidChannelDescriptor;
    const CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor = array_descriptor(format, extent, flags);
    return to_runtime(driver.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(mipmappedArray),
                                                    &descriptor, numLevels));
  });
}

CUDART_API cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray) {
  return with_context([&]() -> cudaError_t {
    if (mipmappedArray == nullptr) return cudaSuccess;
    return to_runtime(driver.cuMipmappedArrayDestroy(to_driver(mipmappedArray)));
  });
}

CUDART_API cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* levelArray,
                                                  cudaMipmappedArray_const_t mipmappedArray,
                                                  unsigned int level) {
  return with_context([&] {
    return driver.cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(levelArray), to_driver(mipmappedArray),
                                           level);
  });
}

CUDART_API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned int* flags,
                                        cudaArray_t array) {
  return with_context([&] { return array_info(desc, extent, flags, array); });
}

CUDART_API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  return with_context([&]() -> cudaError_t {
    if (desc == nullptr) return cudaErrorInvalidValue;
    return array_info(desc, nullptr, nullptr, array);
  });
}

CUDART_API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

CUDART_API cudaError_t cudaArrayGetPlane(cudaArray_t* pPlaneArray, cudaArray_t hArray,
                                         unsigned int planeIdx) {
  return with_context([&] {
    return driver.cuArrayGetPlane(reinterpret_cast<CUarray*>(pPlaneArray), to_driver(hArray), planeIdx);
  });
}

CUDART_API cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements* memoryRequirements,
                                                      cudaArray_t array, int device) {
  return with_context([&]() -> cudaError_t {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    return to_runtime(driver.cuArrayGetMemoryRequirements(
        reinterpret_cast<CUDA_ARRAY_MEMORY_REQUIREMENTS*>(memoryRequirements), to_driver(array),
        device_handle(device)));
  });
}

CUDART_API cudaError_t cudaMipmappedArrayGetMemoryRequirements(
    cudaArrayMemoryRequirements* memoryRequirements, cudaMipmappedArray_t mipmap, int device) {
  return with_context([&]() -> cudaError_t {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    return to_runtime(driver.cuMipmappedArrayGetMemoryRequirements(
        reinterpret_cast<CUDA_ARRAY_MEMORY_REQUIREMENTS*>(memoryRequirements), to_driver(mipmap),
        device_handle(device)));
  });
}

CUDART_API cudaError_t cudaArrayGetSparseProperties(cudaArraySparseProperties* sparseProperties,
                                                    cudaArray_t array) {
  return with_context([&] {
    return driver.cuArrayGetSparseProperties(
        reinterpret_cast<CUDA_ARRAY_SPARSE_PROPERTIES*>(sparseProperties), to_driver(array));
  });
}

CUDART_API cudaError_t cudaMipmappedArrayGetSparseProperties(cudaArraySparseProperties* sparseProperties,
                                                             cudaMipmappedArray_t mipmap) {
  return with_context([&] {
    return driver.cuMipmappedArrayGetSparseProperties(
        reinterpret_cast<CUDA_ARRAY_SPARSE_PROPERTIES*>(sparseProperties), to_driver(mipmap));
  });
}
