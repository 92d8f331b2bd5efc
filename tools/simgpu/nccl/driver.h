// What libnccl.so.2 needs of the driver, found in the libcuda.so.1 that is loaded: public entry points and
// simgpu's private ones. Filled once; null members mean that the driver is not simgpu's and every call fails
// with ncclSystemError.
#pragma once
#include <cuda.h>

#include "tools/simgpu/driver/private_api.h"

namespace simgpu::nccl {

struct Driver {
  CUresult (*cuInit)(unsigned) = nullptr;
  CUresult (*cuCtxGetCurrent)(CUcontext*) = nullptr;
  CUresult (*cuCtxSetCurrent)(CUcontext) = nullptr;
  CUresult (*cuCtxGetDevice)(CUdevice*) = nullptr;
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*cuDeviceGetCount)(int*) = nullptr;
  CUresult (*cuDeviceGetAttribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
  CUresult (*cuEventCreate)(CUevent*, unsigned) = nullptr;
  CUresult (*cuEventDestroy_v2)(CUevent) = nullptr;
  CUresult (*cuEventRecord)(CUevent, CUstream) = nullptr;
  CUresult (*cuStreamIsCapturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
  CUresult (*cuStreamWaitEvent)(CUstream, CUevent, unsigned) = nullptr;
  CUresult (*cuMemAlloc_v2)(CUdeviceptr*, size_t) = nullptr;
  CUresult (*cuMemFree_v2)(CUdeviceptr) = nullptr;
  decltype(&::cuDeviceCanAccessPeer) cuDeviceCanAccessPeer = nullptr;
  decltype(&::cuMemCreate) cuMemCreate = nullptr;
  decltype(&::cuMemRelease) cuMemRelease = nullptr;
  decltype(&::cuMemAddressReserve) cuMemAddressReserve = nullptr;
  decltype(&::cuMemAddressFree) cuMemAddressFree = nullptr;
  decltype(&::cuMemMap) cuMemMap = nullptr;
  decltype(&::cuMemUnmap) cuMemUnmap = nullptr;
  decltype(&::cuMemSetAccess) cuMemSetAccess = nullptr;
  decltype(&::cuMemRetainAllocationHandle) cuMemRetainAllocationHandle = nullptr;
  decltype(&::cuMemGetAddressRange_v2) cuMemGetAddressRange_v2 = nullptr;
  decltype(&::simgpu_submit) submit = nullptr;
  decltype(&::simgpu_poke) poke = nullptr;
  decltype(&::simgpu_op_start_ns) op_start_ns = nullptr;
  decltype(&::simgpu_op_fail) op_fail = nullptr;
  decltype(&::simgpu_op_access) op_access = nullptr;
  decltype(&::simgpu_op_meet) op_meet = nullptr;
  decltype(&::simgpu_host_pointer) host_pointer = nullptr;
  decltype(&::simgpu_export_memory) export_memory = nullptr;
  decltype(&::simgpu_box_index) box_index = nullptr;
  decltype(&::simgpu_link_bytes_per_s) link_bytes_per_s = nullptr;
  decltype(&::simgpu_null_clock) null_clock = nullptr;
  bool ok = false;
};

const Driver& driver();

}  // namespace simgpu::nccl
