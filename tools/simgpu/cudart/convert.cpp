#include "tools/simgpu/cudart/convert.h"

#include "tools/simgpu/cudart/state.h"

namespace simgpu::cudart {
namespace {

// Formats that are a kind of their own: the channel widths the kind implies, and the bytes of an element.
struct SpecialFormat {
  cudaChannelFormatKind kind;
  CUarray_format format;
  unsigned channels;
  int x, y, z, w;
  unsigned bytes;
};
constexpr SpecialFormat kSpecialFormats[] = {
    {cudaChannelFormatKindNV12, CU_AD_FORMAT_NV12, 3, 8, 8, 8, 0, 0},
    {cudaChannelFormatKindUnsignedNormalized8X1, CU_AD_FORMAT_UNORM_INT8X1, 1, 8, 0, 0, 0, 1},
    {cudaChannelFormatKindUnsignedNormalized8X2, CU_AD_FORMAT_UNORM_INT8X2, 2, 8, 8, 0, 0, 2},
    {cudaChannelFormatKindUnsignedNormalized8X4, CU_AD_FORMAT_UNORM_INT8X4, 4, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedNormalized16X1, CU_AD_FORMAT_UNORM_INT16X1, 1, 16, 0, 0, 0, 2},
    {cudaChannelFormatKindUnsignedNormalized16X2, CU_AD_FORMAT_UNORM_INT16X2, 2, 16, 16, 0, 0, 4},
    {cudaChannelFormatKindUnsignedNormalized16X4, CU_AD_FORMAT_UNORM_INT16X4, 4, 16, 16, 16, 16, 8},
    {cudaChannelFormatKindSignedNormalized8X1, CU_AD_FORMAT_SNORM_INT8X1, 1, 8, 0, 0, 0, 1},
    {cudaChannelFormatKindSignedNormalized8X2, CU_AD_FORMAT_SNORM_INT8X2, 2, 8, 8, 0, 0, 2},
    {cudaChannelFormatKindSignedNormalized8X4, CU_AD_FORMAT_SNORM_INT8X4, 4, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindSignedNormalized16X1, CU_AD_FORMAT_SNORM_INT16X1, 1, 16, 0, 0, 0, 2},
    {cudaChannelFormatKindSignedNormalized16X2, CU_AD_FORMAT_SNORM_INT16X2, 2, 16, 16, 0, 0, 4},
    {cudaChannelFormatKindSignedNormalized16X4, CU_AD_FORMAT_SNORM_INT16X4, 4, 16, 16, 16, 16, 8},
    {cudaChannelFormatKindUnsignedBlockCompressed1, CU_AD_FORMAT_BC1_UNORM, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed1SRGB, CU_AD_FORMAT_BC1_UNORM_SRGB, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed2, CU_AD_FORMAT_BC2_UNORM, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed2SRGB, CU_AD_FORMAT_BC2_UNORM_SRGB, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed3, CU_AD_FORMAT_BC3_UNORM, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed3SRGB, CU_AD_FORMAT_BC3_UNORM_SRGB, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed4, CU_AD_FORMAT_BC4_UNORM, 1, 8, 0, 0, 0, 0},
    {cudaChannelFormatKindSignedBlockCompressed4, CU_AD_FORMAT_BC4_SNORM, 1, 8, 0, 0, 0, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed5, CU_AD_FORMAT_BC5_UNORM, 2, 8, 8, 0, 0, 0},
    {cudaChannelFormatKindSignedBlockCompressed5, CU_AD_FORMAT_BC5_SNORM, 2, 8, 8, 0, 0, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed6H, CU_AD_FORMAT_BC6H_UF16, 3, 16, 16, 16, 0, 0},
    {cudaChannelFormatKindSignedBlockCompressed6H, CU_AD_FORMAT_BC6H_SF16, 3, 16, 16, 16, 0, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed7, CU_AD_FORMAT_BC7_UNORM, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedBlockCompressed7SRGB, CU_AD_FORMAT_BC7_UNORM_SRGB, 4, 8, 8, 8, 8, 0},
    {cudaChannelFormatKindUnsignedNormalized1010102, CU_AD_FORMAT_UNORM_INT_101010_2, 4, 10, 10, 10, 2, 4},
};

struct PlainFormat {
  cudaChannelFormatKind kind;
  int bits;
  CUarray_format format;
};
constexpr PlainFormat kPlainFormats[] = {
    {cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
    {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
    {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
    {cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
    {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
    {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
    {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
    {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT},
};

const PlainFormat* plain_format(CUarray_format format) {
  for (const PlainFormat& plain : kPlainFormats) {
    if (plain.format == format) return &plain;
  }
  return nullptr;
}

// The memory on one side of a 3D copy: exactly one of array and pointer is given.
struct Side {
  CUarray array;
  size_t element;  // bytes; 1 for memory that is no array
};

cudaError_t side_of(cudaArray_t array, const cudaPitchedPtr& pointer, Side* side) {
  if ((array != nullptr) == (pointer.ptr != nullptr)) return cudaErrorInvalidValue;
  side->array = to_driver(array);
  side->element = 1;
  if (array == nullptr) return cudaSuccess;
  CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor{};
  if (const cudaError_t error = describe(side->array, &descriptor, &side->element); error != cudaSuccess) {
    return error;
  }
  return side->element == 0 ? cudaErrorNotSupported : cudaSuccess;
}

template <typename Params, typename Copy>
cudaError_t fill_copy(const Params& copy, CUmemorytype source_type, CUmemorytype destination_type,
                      Copy* out) {
  Side source{}, destination{};
  if (const cudaError_t error = side_of(copy.srcArray, copy.srcPtr, &source); error != cudaSuccess)
    return error;
  if (const cudaError_t error = side_of(copy.dstArray, copy.dstPtr, &destination); error != cudaSuccess) {
    return error;
  }
  if (source.array != nullptr && destination.array != nullptr && source.element != destination.element) {
    return cudaErrorInvalidValue;
  }
  // The extent counts elements of whichever array takes part, else bytes.
  const size_t element = source.array != nullptr ? source.element : destination.element;
  *out = Copy{};
  out->WidthInBytes = copy.extent.width * element;
  out->Height = copy.extent.height;
  out->Depth = copy.extent.depth;
  out->srcXInBytes = copy.srcPos.x * source.element;
  out->srcY = copy.srcPos.y;
  out->srcZ = copy.srcPos.z;
  out->dstXInBytes = copy.dstPos.x * destination.element;
  out->dstY = copy.dstPos.y;
  out->dstZ = copy.dstPos.z;
  if (source.array != nullptr) {
    out->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out->srcArray = source.array;
  } else {
    out->srcMemoryType = source_type;
    out->srcHost = source_type == CU_MEMORYTYPE_HOST ? copy.srcPtr.ptr : nullptr;
    out->srcDevice = source_type == CU_MEMORYTYPE_HOST ? 0 : to_driver(copy.srcPtr.ptr);
    out->srcPitch = copy.srcPtr.pitch;
    out->srcHeight = copy.srcPtr.ysize;
  }
  if (destination.array != nullptr) {
    out->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    out->dstArray = destination.array;
  } else {
    out->dstMemoryType = destination_type;
    out->dstHost = destination_type == CU_MEMORYTYPE_HOST ? copy.dstPtr.ptr : nullptr;
    out->dstDevice = destination_type == CU_MEMORYTYPE_HOST ? 0 : to_driver(copy.dstPtr.ptr);
    out->dstPitch = copy.dstPtr.pitch;
    out->dstHeight = copy.dstPtr.ysize;
  }
  // A row wider than its pitch has a name of its own here; the driver would say invalid value.
  const bool one_row = out->Height <= 1 && out->Depth <= 1;
  if (!one_row && ((source.array == nullptr && out->srcXInBytes + out->WidthInBytes > out->srcPitch) ||
                   (destination.array == nullptr && out->dstXInBytes + out->WidthInBytes > out->dstPitch))) {
    return cudaErrorInvalidPitchValue;
  }
  return cudaSuccess;
}

}  // namespace

bool to_driver(const cudaChannelFormatDesc& description, ArrayFormat* format) {
  for (const SpecialFormat& special : kSpecialFormats) {
    if (special.kind != description.f) continue;
    if (description.x != special.x || description.y != special.y || description.z != special.z ||
        description.w != special.w) {
      return false;
    }
    *format = {special.format, special.channels};
    return true;
  }
  const int widths[] = {description.x, description.y, description.z, description.w};
  unsigned channels = 0;
  while (channels < 4 && widths[channels] != 0) ++channels;
  for (unsigned i = 0; i < 4; ++i) {
    if (widths[i] != (i < channels ? description.x : 0)) return false;
  }
  if (channels != 1 && channels != 2 && channels != 4) return false;
  for (const PlainFormat& plain : kPlainFormats) {
    if (plain.kind != description.f || plain.bits != description.x) continue;
    *format = {plain.format, channels};
    return true;
  }
  return false;
}

cudaChannelFormatDesc to_runtime(const ArrayFormat& format) {
  for (const SpecialFormat& special : kSpecialFormats) {
    if (special.format == format.format) return {special.x, special.y, special.z, special.w, special.kind};
  }
  const PlainFormat* plain = plain_format(format.format);
  if (plain == nullptr) return {0, 0, 0, 0, cudaChannelFormatKindNone};
  const auto width = [&](unsigned channel) { return channel < format.channels ? plain->bits : 0; };
  return {width(0), width(1), width(2), width(3), plain->kind};
}

size_t element_bytes(const ArrayFormat& format) {
  for (const SpecialFormat& special : kSpecialFormats) {
    if (special.format == format.format) return special.bytes;
  }
  const PlainFormat* plain = plain_format(format.format);
  return plain == nullptr ? 0 : static_cast<size_t>(plain->bits) / 8 * format.channels;
}

cudaError_t describe(CUarray array, CUDA_ARRAY3D_DESCRIPTOR_v2* descriptor, size_t* bytes) {
  if (array == nullptr) return cudaErrorInvalidResourceHandle;
  const CUresult result = driver.cuArray3DGetDescriptor(descriptor, array);
  if (result != CUDA_SUCCESS) return to_runtime(result);
  *bytes = element_bytes({descriptor->Format, descriptor->NumChannels});
  return cudaSuccess;
}

CUDA_ARRAY3D_DESCRIPTOR_v2 array_descriptor(const ArrayFormat& format, const cudaExtent& extent,
                                            unsigned flags) {
  static_assert(cudaArrayLayered == CUDA_ARRAY3D_LAYERED && cudaArrayCubemap == CUDA_ARRAY3D_CUBEMAP &&
                cudaArraySurfaceLoadStore == CUDA_ARRAY3D_SURFACE_LDST &&
                cudaArrayTextureGather == CUDA_ARRAY3D_TEXTURE_GATHER &&
                cudaArrayColorAttachment == CUDA_ARRAY3D_COLOR_ATTACHMENT &&
                cudaArraySparse == CUDA_ARRAY3D_SPARSE &&
                cudaArrayDeferredMapping == CUDA_ARRAY3D_DEFERRED_MAPPING);
  return {extent.width, extent.height, extent.depth, format.format, format.channels, flags};
}

bool sides_of(cudaMemcpyKind kind, CopySides* sides) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
      return true;
    case cudaMemcpyHostToDevice:
      *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
      return true;
    case cudaMemcpyDeviceToHost:
      *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
      return true;
    case cudaMemcpyDeviceToDevice:
      *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
      return true;
    case cudaMemcpyDefault:
      *sides = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
      return true;
  }
  return false;
}

cudaMemcpyKind kind_of(CUmemorytype source, CUmemorytype destination) {
  if (source == CU_MEMORYTYPE_UNIFIED || destination == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (source == CU_MEMORYTYPE_HOST) {
    return destination == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  }
  return destination == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

cudaError_t to_driver(const cudaMemcpy3DParms& copy, CUDA_MEMCPY3D_v2* out) {
  CopySides sides{};
  if (!sides_of(copy.kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  return fill_copy(copy, sides.source, sides.destination, out);
}

cudaError_t to_driver(const cudaMemcpy3DPeerParms& copy, CUDA_MEMCPY3D_PEER_v1* out) {
  if (!valid_device(copy.srcDevice) || !valid_device(copy.dstDevice)) return cudaErrorInvalidDevice;
  if (const cudaError_t error = fill_copy(copy, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE, out);
      error != cudaSuccess) {
    return error;
  }
  if (const cudaError_t error = retain_primary(copy.srcDevice, &out->srcContext); error != cudaSuccess) {
    return error;
  }
  return retain_primary(copy.dstDevice, &out->dstContext);
}

cudaError_t to_runtime(const CUDA_MEMCPY3D_v2& copy, cudaMemcpy3DParms* out) {
  *out = cudaMemcpy3DParms{};
  size_t source_element = 1, destination_element = 1;
  CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor{};
  if (copy.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    out->srcArray = to_runtime(copy.srcArray);
    if (const cudaError_t error = describe(copy.srcArray, &descriptor, &source_element);
        error != cudaSuccess) {
      return error;
    }
  } else {
    const bool host = copy.srcMemoryType == CU_MEMORYTYPE_HOST;
    out->srcPtr.ptr = host ? const_cast<void*>(copy.srcHost) : reinterpret_cast<void*>(copy.srcDevice);
    out->srcPtr.pitch = copy.srcPitch;
    out->srcPtr.xsize = copy.WidthInBytes;
    out->srcPtr.ysize = copy.srcHeight;
  }
  if (copy.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    out->dstArray = to_runtime(copy.dstArray);
    if (const cudaError_t error = describe(copy.dstArray, &descriptor, &destination_element);
        error != cudaSuccess) {
      return error;
    }
  } else {
    const bool host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
    out->dstPtr.ptr = host ? copy.dstHost : reinterpret_cast<void*>(copy.dstDevice);
    out->dstPtr.pitch = copy.dstPitch;
    out->dstPtr.xsize = copy.WidthInBytes;
    out->dstPtr.ysize = copy.dstHeight;
  }
  if (source_element == 0 || destination_element == 0) return cudaErrorNotSupported;
  const size_t element = out->srcArray != nullptr ? source_element : destination_element;
  out->srcPos = {copy.srcXInBytes / source_element, copy.srcY, copy.srcZ};
  out->dstPos = {copy.dstXInBytes / destination_element, copy.dstY, copy.dstZ};
  out->extent = {copy.WidthInBytes / element, copy.Height, copy.Depth};
  out->kind = kind_of(copy.srcMemoryType, copy.dstMemoryType);
  return cudaSuccess;
}

cudaError_t to_driver(const cudaResourceDesc& resource, CUDA_RESOURCE_DESC_v1* out) {
  *out = CUDA_RESOURCE_DESC_v1{};
  out->flags = resource.flags;
  ArrayFormat format{};
  switch (resource.resType) {
    case cudaResourceTypeArray:
      out->resType = CU_RESOURCE_TYPE_ARRAY;
      out->res.array.hArray = to_driver(resource.res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      out->res.mipmap.hMipmappedArray = to_driver(resource.res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear:
      if (!to_driver(resource.res.linear.desc, &format)) return cudaErrorInvalidChannelDescriptor;
      out->resType = CU_RESOURCE_TYPE_LINEAR;
      out->res.linear.devPtr = to_driver(resource.res.linear.devPtr);
      out->res.linear.format = format.format;
      out->res.linear.numChannels = format.channels;
      out->res.linear.sizeInBytes = resource.res.linear.sizeInBytes;
      return cudaSuccess;
    case cudaResourceTypePitch2D:
      if (!to_driver(resource.res.pitch2D.desc, &format)) return cudaErrorInvalidChannelDescriptor;
      out->resType = CU_RESOURCE_TYPE_PITCH2D;
      out->res.pitch2D.devPtr = to_driver(resource.res.pitch2D.devPtr);
      out->res.pitch2D.format = format.format;
      out->res.pitch2D.numChannels = format.channels;
      out->res.pitch2D.width = resource.res.pitch2D.width;
      out->res.pitch2D.height = resource.res.pitch2D.height;
      out->res.pitch2D.pitchInBytes = resource.res.pitch2D.pitchInBytes;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t to_runtime(const CUDA_RESOURCE_DESC_v1& resource, cudaResourceDesc* out) {
  *out = cudaResourceDesc{};
  out->flags = resource.flags;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out->resType = cudaResourceTypeArray;
      out->res.array.array = to_runtime(resource.res.array.hArray);
      return cudaSuccess;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out->resType = cudaResourceTypeMipmappedArray;
      out->res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(resource.res.mipmap.hMipmappedArray);
      return cudaSuccess;
    case CU_RESOURCE_TYPE_LINEAR:
      out->resType = cudaResourceTypeLinear;
      out->res.linear.devPtr = reinterpret_cast<void*>(resource.res.linear.devPtr);
      out->res.linear.desc =
          to_runtime(ArrayFormat{resource.res.linear.format, resource.res.linear.numChannels});
      out->res.linear.sizeInBytes = resource.res.linear.sizeInBytes;
      return cudaSuccess;
    case CU_RESOURCE_TYPE_PITCH2D:
      out->resType = cudaResourceTypePitch2D;
      out->res.pitch2D.devPtr = reinterpret_cast<void*>(resource.res.pitch2D.devPtr);
      out->res.pitch2D.desc =
          to_runtime(ArrayFormat{resource.res.pitch2D.format, resource.res.pitch2D.numChannels});
      out->res.pitch2D.width = resource.res.pitch2D.width;
      out->res.pitch2D.height = resource.res.pitch2D.height;
      out->res.pitch2D.pitchInBytes = resource.res.pitch2D.pitchInBytes;
      return cudaSuccess;
    default:
      return cudaErrorUnknown;
  }
}

CUDA_TEXTURE_DESC_v1 to_driver(const cudaTextureDesc& texture) {
  CUDA_TEXTURE_DESC_v1 out{};
  for (int i = 0; i < 3; ++i) out.addressMode[i] = static_cast<CUaddress_mode>(texture.addressMode[i]);
  out.filterMode = static_cast<CUfilter_mode>(texture.filterMode);
  // The driver normalises integers unless told not to; the runtime's default is the element itself.
  if (texture.readMode == cudaReadModeElementType) out.flags |= CU_TRSF_READ_AS_INTEGER;
  if (texture.normalizedCoords != 0) out.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (texture.sRGB != 0) out.flags |= CU_TRSF_SRGB;
  if (texture.disableTrilinearOptimization != 0) out.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (texture.seamlessCubemap != 0) out.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
  out.maxAnisotropy = texture.maxAnisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(texture.mipmapFilterMode);
  out.mipmapLevelBias = texture.mipmapLevelBias;
  out.minMipmapLevelClamp = texture.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = texture.maxMipmapLevelClamp;
  for (int i = 0; i < 4; ++i) out.borderColor[i] = texture.borderColor[i];
  return out;
}

cudaTextureDesc to_runtime(const CUDA_TEXTURE_DESC_v1& texture) {
  cudaTextureDesc out{};
  for (int i = 0; i < 3; ++i)
    out.addressMode[i] = static_cast<cudaTextureAddressMode>(texture.addressMode[i]);
  out.filterMode = static_cast<cudaTextureFilterMode>(texture.filterMode);
  out.readMode =
      (texture.flags & CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  out.normalizedCoords = (texture.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  out.sRGB = (texture.flags & CU_TRSF_SRGB) != 0;
  out.disableTrilinearOptimization = (texture.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
  out.seamlessCubemap = (texture.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  out.maxAnisotropy = texture.maxAnisotropy;
  out.mipmapFilterMode = static_cast<cudaTextureFilterMode>(texture.mipmapFilterMode);
  out.mipmapLevelBias = texture.mipmapLevelBias;
  out.minMipmapLevelClamp = texture.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = texture.maxMipmapLevelClamp;
  for (int i = 0; i < 4; ++i) out.borderColor[i] = texture.borderColor[i];
  return out;
}

}  // namespace simgpu::cudart
