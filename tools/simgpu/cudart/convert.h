// Between the runtime's descriptions (channel descriptors, 3D copies, resources, textures) and the driver's.
// Pure functions, except that a copy that names an array asks the driver for the array's element size.
#pragma once
#include "tools/simgpu/cudart/errors.h"

namespace simgpu::cudart {

struct ArrayFormat {
  CUarray_format format;
  unsigned channels;
};

// False when no array can have such elements.
bool to_driver(const cudaChannelFormatDesc& description, ArrayFormat* format);
cudaChannelFormatDesc to_runtime(const ArrayFormat& format);
// Bytes of one element; 0 for formats whose elements have no size of their own (planar, block-compressed).
size_t element_bytes(const ArrayFormat& format);

inline CUarray to_driver(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}
inline CUmipmappedArray to_driver(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}
inline cudaArray_t to_runtime(CUarray array) { return reinterpret_cast<cudaArray_t>(array); }
inline CUdeviceptr to_driver(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// An array's descriptor and element size.
cudaError_t describe(CUarray array, CUDA_ARRAY3D_DESCRIPTOR_v2* descriptor, size_t* bytes);
CUDA_ARRAY3D_DESCRIPTOR_v2 array_descriptor(const ArrayFormat& format, const cudaExtent& extent,
                                            unsigned flags);

// One side of a copy between flat memory, as the kind declares it.
struct CopySides {
  CUmemorytype source;
  CUmemorytype destination;
};
bool sides_of(cudaMemcpyKind kind, CopySides* sides);
cudaMemcpyKind kind_of(CUmemorytype source, CUmemorytype destination);

cudaError_t to_driver(const cudaMemcpy3DParms& copy, CUDA_MEMCPY3D_v2* out);
cudaError_t to_runtime(const CUDA_MEMCPY3D_v2& copy, cudaMemcpy3DParms* out);
cudaError_t to_driver(const cudaMemcpy3DPeerParms& copy, CUDA_MEMCPY3D_PEER_v1* out);

cudaError_t to_driver(const cudaResourceDesc& resource, CUDA_RESOURCE_DESC_v1* out);
cudaError_t to_runtime(const CUDA_RESOURCE_DESC_v1& resource, cudaResourceDesc* out);
CUDA_TEXTURE_DESC_v1 to_driver(const cudaTextureDesc& texture);
cudaTextureDesc to_runtime(const CUDA_TEXTURE_DESC_v1& texture);

}  // namespace simgpu::cudart
