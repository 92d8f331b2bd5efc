// Devices: enumeration, identity, attributes, peer capabilities.
#include <cstdio>
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/occupancy.h"

using namespace simgpu::driver;
using simgpu::LinkKind;

namespace {
constexpr int kMaxSharedDefault = 49152;

int clamp_int(double value) { return value > 2147483647.0 ? 2147483647 : int(value); }

// From the profile where it has the figure; the rest are the documented limits of compute capability 8.0 and
// later.
CUresult attribute(const Device& d, CUdevice_attribute a, int& v) {
  const auto& p = *d.profile;
  const bool hopper = d.profile->cc_major >= 9;
  const bool host_pages = p.addressing == "ats", pageable = p.addressing == "ats" || p.addressing == "hmm";
  simgpu::Box& box = *platform()->box;
  switch (int(a)) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      v = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      v = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      v = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      v = 64;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      v = 2147483647;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
      v = 65535;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      v = 65535;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      v = kMaxSharedDefault;
      break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      v = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      v = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      v = 2147483647;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      v = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      v = clamp_int(p.sm_clock_mhz.value * 1000);
      break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      v = 512;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      v = d.sm_count();
      break;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      v = CU_COMPUTEMODE_DEFAULT;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH:
      v = 131072;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH:
      v = 131072;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT:
      v = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH:
      v = 16384;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS:
      v = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      v = 512;
      break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      v = int(box.pci_bus(d.box_index));
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_TCC_DRIVER:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      v = clamp_int(p.memory_clock_mhz.value * 1000);
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      v = int(p.memory_bus_bits.value);
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      v = clamp_int(p.l2_bytes.value);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      v = d.threads_per_sm();
      break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      v = p.copy_engines.value >= 1 ? int(p.copy_engines.value) : 2;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS:
      v = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE:
      v = 8192;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      v = int(platform()->box->pci_domain(d.box_index));
      break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      v = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS:
      v = 2046;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH:
      v = 131072;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT:
      v = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH:
      v = 16384;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS:
      v = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS:
      v = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS:
      v = 2046;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH:
      v = 268435456;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH:
      v = 131072;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT:
      v = 65000;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH:
      v = 2097120;
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      v = int(p.cc_major);
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      v = int(p.cc_minor);
      break;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH:
      v = 32768;
      break;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      v = int(d.shared_per_sm());
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      v = d.regs_per_sm();
      break;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
      v = d.box_index;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
      v = host_pages;
      break;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      v = p.fp64.value > 0 ? int(p.fp32.value / p.fp64.value + 0.5) : 64;
      break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
      v = pageable;
      break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      v = int(d.shared_per_block_optin());
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
      v = host_pages;
      break;
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
      v = host_pages;
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      v = d.blocks_per_sm();
      break;
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
      v = clamp_int(p.l2_bytes.value * 0.625);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
      v = 134213632;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      v = int(kReservedSharedPerBlock);
      break;
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      v = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      v = hopper;
      break;
    case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
      v = hopper ? 4 : 1;
      break;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_NUMA_CONFIG:
      v = CU_DEVICE_NUMA_CONFIG_NONE;
      break;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
      v = -1;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      v = int(platform()->box->spec().devices[size_t(d.box_index)].numa_node);
      break;
    case CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID:
      v = int(p.pci_device_id << 16 | 0x10DE);
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID:
      v = 0x10DE;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      v = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED:
      v = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED:
      v = 0;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuDeviceGetCount(int* count) {
  return api_call("cuDeviceGetCount", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    *count = int(platform()->devices.size());
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGet(CUdevice* device, int ordinal) {
  return api_call("cuDeviceGet", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(device_at(ordinal), CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetName(char* name, int len, CUdevice dev) {
  return api_call("cuDeviceGetName", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(name && len > 0, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    snprintf(name, size_t(len), "%.*s", int(device->profile->name.size()), device->profile->name.data());
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return api_call("cuDeviceGetUuid", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(uuid, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    platform()->box->uuid(device->box_index, reinterpret_cast<uint8_t*>(uuid->bytes));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) { return cuDeviceGetUuid(uuid, dev); }

SIMGPU_API cuDeviceGetLuid(char* luid, unsigned int* deviceNodeMask, CUdevice dev) {
  return api_call("cuDeviceGetLuid", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(luid && deviceNodeMask, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;  // Windows only
  });
}

SIMGPU_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  return api_call("cuDeviceTotalMem", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    *bytes = device->memory_bytes();
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format format,
                                              unsigned numChannels, CUdevice dev) {
  return api_call("cuDeviceGetTexture1DLinearMaxWidth", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(maxWidthInElements && (numChannels == 1 || numChannels == 2 || numChannels == 4),
                   CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *maxWidthInElements = 268435456;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  return api_call("cuDeviceGetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pi, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    return attribute(*device, attrib, *pi);
  });
}

SIMGPU_API cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  return api_call("cuDeviceGetProperties", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(prop, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    *prop = {1024,
             {1024, 1024, 64},
             {2147483647, 65535, 65535},
             kMaxSharedDefault,
             65536,
             32,
             2147483647,
             65536,
             clamp_int(device->profile->sm_clock_mhz.value * 1000),
             512};
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  return api_call("cuDeviceComputeCapability", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(major && minor, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    *major = int(device->profile->cc_major);
    *minor = int(device->profile->cc_minor);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  return api_call("cuDeviceGetPCIBusId", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pciBusId && len > 0, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    // CUDA prints a four-digit domain where NVML prints eight; a larger one takes what it needs.
    const simgpu::Box& box = *platform()->box;
    snprintf(pciBusId, size_t(len), "%04X:%02X:00.0", box.pci_domain(device->box_index),
             box.pci_bus(device->box_index));
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  return api_call("cuDeviceGetByPCIBusId", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(dev && pciBusId, CUDA_ERROR_INVALID_VALUE);
    // Accepted: domain:bus:device.function, domain:bus:device, bus:device.function
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    const int fields = sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function);
    if (fields < 3) {
      domain = function = 0;
      SIMGPU_REQUIRE(sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) >= 2, CUDA_ERROR_INVALID_VALUE);
    }
    for (Device* device : platform()->devices) {
      const simgpu::Box& box = *platform()->box;
      if (slot == 0 && function == 0 && domain == box.pci_domain(device->box_index) &&
          bus == box.pci_bus(device->box_index)) {
        *dev = device->ordinal;
        return CUDA_SUCCESS;
      }
    }
    return CUDA_ERROR_INVALID_DEVICE;
  });
}

SIMGPU_API cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  return api_call("cuDeviceCanAccessPeer", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(canAccessPeer, CUDA_ERROR_INVALID_VALUE);
    Device *device = device_at(dev), *peer = device_at(peerDev);
    SIMGPU_REQUIRE(device && peer, CUDA_ERROR_INVALID_DEVICE);
    *canAccessPeer = device->can_access_peer(*peer);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                   CUdevice dstDevice) {
  return api_call("cuDeviceGetP2PAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    Device *src = device_at(srcDevice), *dst = device_at(dstDevice);
    SIMGPU_REQUIRE(src && dst && src != dst, CUDA_ERROR_INVALID_DEVICE);
    const LinkKind link = platform()->box->spec().link[size_t(src->box_index)][size_t(dst->box_index)];
    const bool nvlink = link == LinkKind::nvlink || link == LinkKind::c2c;
    switch (int(attrib)) {
      case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = nvlink ? 0 : 1;
        break;
      case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
        *value = src->can_access_peer(*dst);
        break;
      case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = nvlink && src->can_access_peer(*dst);
        break;
      case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = nvlink && src->can_access_peer(*dst);
        break;
      case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
  return api_call("cuDeviceGetExecAffinitySupport", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pi && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *pi = 0;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
