/* The five types of CUDA's 32-bit-pointer era (before 3.2) that cuda.h hides from ordinary includes. Drivers
 * still export the functions that take them (cuMemAlloc without _v2, ...), so the signatures of those slots
 * need a name for them. Layout only, in the public order of fields with 32-bit sizes and device addresses. No
 * state, any thread. */
#ifndef SHUNT_RUNTIME_LINK_OLD_TYPES_H
#define SHUNT_RUNTIME_LINK_OLD_TYPES_H
#include <cuda.h>
#ifndef __CUDA_API_VERSION_INTERNAL
typedef unsigned int CUdeviceptr_v1;

/* One side of an old copy; the 2D form has the x/y start and a pitch only. */
typedef struct {
  unsigned int srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr_v1 srcDevice;
  CUarray srcArray;
  unsigned int srcPitch;
  unsigned int dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr_v1 dstDevice;
  CUarray dstArray;
  unsigned int dstPitch;
  unsigned int WidthInBytes, Height;
} CUDA_MEMCPY2D_v1;

typedef struct {
  unsigned int srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr_v1 srcDevice;
  CUarray srcArray;
  void* reserved0;
  unsigned int srcPitch, srcHeight;
  unsigned int dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr_v1 dstDevice;
  CUarray dstArray;
  void* reserved1;
  unsigned int dstPitch, dstHeight;
  unsigned int WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v1;

typedef struct {
  unsigned int Width, Height;
  CUarray_format Format;
  unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct {
  unsigned int Width, Height, Depth;
  CUarray_format Format;
  unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;
#endif
#endif
