// Attributes of functions and kernels, and the occupancy calculator.
#include <algorithm>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/launch.h"
#include "tools/simgpu/driver/core/occupancy.h"

using namespace simgpu::driver;
using simgpu::exec::KernelInfo;

namespace {
// A kernel's facts and settings for a device, from either kind of handle. Kernels need no context for this.
struct Described {
  ImageRef image;
  const KernelInfo* info = nullptr;
  KernelSettings* settings = nullptr;
  const Device* device = nullptr;
};

CUresult describe_kernel(Kernel& kernel, Device& device, Described& out) {
  auto library = kernel.library.lock();
  SIMGPU_REQUIRE(library, CUDA_ERROR_INVALID_HANDLE);
  CUresult error;
  out.image = library->image_for(device, error);
  SIMGPU_REQUIRE(out.image, error);
  const int index = out.image->program->find_kernel(kernel.name);
  SIMGPU_REQUIRE(index >= 0, CUDA_ERROR_NOT_FOUND);
  out.info = &out.image->program->kernels()[size_t(index)];
  out.settings = &kernel.settings[device.ordinal];
  out.device = &device;
  return CUDA_SUCCESS;
}

// CUfunction, or a CUkernel passed as one (then for the current context's device).
CUresult describe(CUfunction handle, Described& out) {
  if (Function* function = lookup<Function>(handle)) {
    auto module = function->module.lock();
    auto context = module ? module->context.lock() : nullptr;
    SIMGPU_REQUIRE(context, CUDA_ERROR_INVALID_HANDLE);
    out.image = function->image;
    out.info = &function->image->program->kernels()[size_t(function->kernel)];
    out.settings = &function->settings;
    out.device = context->device;
    return CUDA_SUCCESS;
  }
  Kernel* kernel = lookup<Kernel>(handle);
  SIMGPU_REQUIRE(kernel, CUDA_ERROR_INVALID_HANDLE);
  Context* context;
  SIMGPU_TRY(require_context(context));
  return describe_kernel(*kernel, *context->device, out);
}

CUresult get_attribute(const Described& d, CUfunction_attribute attribute, int& v) {
  const KernelInfo& info = *d.info;
  switch (int(attribute)) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      v = max_block_threads(*d.device, info);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      v = int(info.static_shared);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
      uint64_t bytes = 0;
      for (const auto& global : d.image->program->globals()) bytes += global.constant ? global.size : 0;
      v = int(bytes);
      break;
    }
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      v = int(info.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      v = int(info.registers);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      v = int(d.image->target_cc);
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      v = d.device->cc();
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      v = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      v = d.settings->dynamic_limit(info);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      v = d.settings->preferred_carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      v = 0;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      v = d.settings->cluster_size[0] ? d.settings->cluster_size[0] : int(info.cluster[0]);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      v = d.settings->cluster_size[1] ? d.settings->cluster_size[1] : int(info.cluster[1]);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      v = d.settings->cluster_size[2] ? d.settings->cluster_size[2] : int(info.cluster[2]);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      v = d.settings->non_portable_cluster;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      v = d.settings->cluster_scheduling;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_attribute(const Described& d, CUfunction_attribute attribute, int value) {
  const KernelInfo& info = *d.info;
  switch (int(attribute)) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      SIMGPU_REQUIRE(value >= 0 && uint64_t(value) + info.static_shared <= d.device->shared_per_block_optin(),
                     CUDA_ERROR_INVALID_VALUE);
      d.settings->max_dynamic_shared = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      SIMGPU_REQUIRE(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
      d.settings->preferred_carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
      const int axis = int(attribute) - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
      SIMGPU_REQUIRE(value >= 0 && !info.cluster[axis],
                     CUDA_ERROR_INVALID_VALUE);  // set at compile time: fixed
      d.settings->cluster_size[axis] = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      SIMGPU_REQUIRE(d.device->profile->cc_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
      d.settings->non_portable_cluster = value != 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      SIMGPU_REQUIRE(value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
                         value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING,
                     CUDA_ERROR_INVALID_VALUE);
      d.settings->cluster_scheduling = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult parameter_info(const KernelInfo& info, size_t index, size_t* offset, size_t* size) {
  SIMGPU_REQUIRE(offset, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(index < info.params.size(), CUDA_ERROR_INVALID_VALUE);
  *offset = info.params[index].offset;
  if (size) *size = info.params[index].size;
  return CUDA_SUCCESS;
}

CUresult max_blocks(int* out, CUfunction func, int block, size_t shared, unsigned flags) {
  SIMGPU_REQUIRE(out && block > 0 && !(flags & ~1u), CUDA_ERROR_INVALID_VALUE);
  Described d;
  SIMGPU_TRY(describe(func, d));
  *out = block > max_block_threads(*d.device, *d.info)
             ? 0
             : resident_blocks_per_sm(*d.device, *d.info, block, shared);
  return CUDA_SUCCESS;
}

// The largest block among those that keep most threads resident, and the grid that fills the device with it.
CUresult potential_block(Lock& lock, int* min_grid, int* block_out, CUfunction func,
                         CUoccupancyB2DSize shared_of, size_t shared, int limit, unsigned flags) {
  SIMGPU_REQUIRE(min_grid && block_out && !(flags & ~1u), CUDA_ERROR_INVALID_VALUE);
  Described d;
  SIMGPU_TRY(describe(func, d));
  int highest = max_block_threads(*d.device, *d.info);
  if (limit > 0) highest = std::min(highest, limit);
  int best_threads = 0, best_block = 0, best_blocks = 0;
  for (int block = (highest + 31) / 32 * 32; block > 0; block -= 32) {
    const int real = std::min(block, highest);
    size_t bytes = shared;
    if (shared_of) {  // the application's function: not under our mutex
      lock.unlock();
      bytes = shared_of(real);
      lock.lock();
    }
    const int blocks = resident_blocks_per_sm(*d.device, *d.info, real, bytes);
    if (blocks * real > best_threads) {
      best_threads = blocks * real;
      best_block = real;
      best_blocks = blocks;
    }
  }
  *block_out = best_block;
  *min_grid = best_blocks * d.device->sm_count();
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  return api_call("cuFuncGetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pi, CUDA_ERROR_INVALID_VALUE);
    Described d;
    SIMGPU_TRY(describe(hfunc, d));
    return get_attribute(d, attrib, *pi);
  });
}
SIMGPU_API cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return api_call("cuFuncSetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    Described d;
    SIMGPU_TRY(describe(hfunc, d));
    return set_attribute(d, attrib, value);
  });
}
SIMGPU_API cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  return api_call("cuKernelGetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pi, CUDA_ERROR_INVALID_VALUE);
    Kernel* k = lookup<Kernel>(kernel);
    SIMGPU_REQUIRE(k, CUDA_ERROR_INVALID_HANDLE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    Described d;
    SIMGPU_TRY(describe_kernel(*k, *device, d));
    return get_attribute(d, attrib, *pi);
  });
}
SIMGPU_API cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  return api_call("cuKernelSetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    Kernel* k = lookup<Kernel>(kernel);
    SIMGPU_REQUIRE(k, CUDA_ERROR_INVALID_HANDLE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    Described d;
    SIMGPU_TRY(describe_kernel(*k, *device, d));
    return set_attribute(d, attrib, val);
  });
}
SIMGPU_API cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  return api_call("cuFuncSetCacheConfig", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(unsigned(config) <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    Described d;
    SIMGPU_TRY(describe(hfunc, d));
    d.settings->cache = config;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  return api_call("cuKernelSetCacheConfig", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(unsigned(config) <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    Kernel* k = lookup<Kernel>(kernel);
    SIMGPU_REQUIRE(k, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_REQUIRE(device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    k->settings[dev].cache = config;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  return api_call("cuFuncSetSharedMemConfig", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(unsigned(config) <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    Described d;
    return describe(hfunc, d);
  });
}
SIMGPU_API cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  return api_call("cuFuncGetModule", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(hmod, CUDA_ERROR_INVALID_VALUE);
    Context* context = nullptr;
    KernelRef ref;
    if (!lookup<Function>(hfunc)) SIMGPU_TRY(require_context(context));
    if (Function* function = lookup<Function>(hfunc)) {
      ref.instance = function->module.lock();
      SIMGPU_REQUIRE(ref.instance, CUDA_ERROR_INVALID_HANDLE);
    } else {
      SIMGPU_TRY(resolve_function(hfunc, *context, ref));
    }
    if (!ref.instance->handle) make_handle(ref.instance);
    *hmod = handle_of<CUmodule>(*ref.instance);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuFuncGetName(const char** name, CUfunction hfunc) {
  return api_call("cuFuncGetName", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(name, CUDA_ERROR_INVALID_VALUE);
    Described d;
    SIMGPU_TRY(describe(hfunc, d));
    *name = d.info->name.c_str();
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuKernelGetName(const char** name, CUkernel hfunc) {
  return api_call("cuKernelGetName", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(name, CUDA_ERROR_INVALID_VALUE);
    if (Kernel* kernel = lookup<Kernel>(hfunc)) {
      *name = kernel->name.c_str();
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_HANDLE;
  });
}
SIMGPU_API cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return api_call("cuFuncGetParamInfo", kNeedsInit, [&](Lock&) -> CUresult {
    Described d;
    SIMGPU_TRY(describe(func, d));
    return parameter_info(*d.info, paramIndex, paramOffset, paramSize);
  });
}
SIMGPU_API cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return api_call("cuKernelGetParamInfo", kNeedsInit, [&](Lock&) -> CUresult {
    Kernel* k = lookup<Kernel>(kernel);
    SIMGPU_REQUIRE(k, CUDA_ERROR_INVALID_HANDLE);
    Context* context = current_context();
    Described d;
    SIMGPU_TRY(describe_kernel(*k, context ? *context->device : *platform()->devices[0], d));
    return parameter_info(*d.info, paramIndex, paramOffset, paramSize);
  });
}
SIMGPU_API cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return api_call("cuFuncIsLoaded", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(state, CUDA_ERROR_INVALID_VALUE);
    Described d;
    SIMGPU_TRY(describe(function, d));
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuFuncLoad(CUfunction function) {
  return api_call("cuFuncLoad", kNeedsInit, [&](Lock&) -> CUresult {
    Described d;
    return describe(function, d);
  });
}

SIMGPU_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                       size_t dynamicSMemSize) {
  return api_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kNeedsInit, [&](Lock&) -> CUresult {
    return max_blocks(numBlocks, func, blockSize, dynamicSMemSize, 0);
  });
}
SIMGPU_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func,
                                                                int blockSize, size_t dynamicSMemSize,
                                                                unsigned int flags) {
  return api_call("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", kNeedsInit, [&](Lock&) -> CUresult {
    return max_blocks(numBlocks, func, blockSize, dynamicSMemSize, flags);
  });
}
SIMGPU_API cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                            CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                            size_t dynamicSMemSize, int blockSizeLimit) {
  return api_call("cuOccupancyMaxPotentialBlockSize", kNeedsInit, [&](Lock& lock) -> CUresult {
    return potential_block(lock, minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
                           blockSizeLimit, 0);
  });
}
SIMGPU_API cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                     CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                     size_t dynamicSMemSize, int blockSizeLimit,
                                                     unsigned int flags) {
  return api_call("cuOccupancyMaxPotentialBlockSizeWithFlags", kNeedsInit, [&](Lock& lock) -> CUresult {
    return potential_block(lock, minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
                           blockSizeLimit, flags);
  });
}
SIMGPU_API cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                   int blockSize) {
  return api_call("cuOccupancyAvailableDynamicSMemPerBlock", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(dynamicSmemSize && numBlocks > 0 && blockSize > 0, CUDA_ERROR_INVALID_VALUE);
    Described d;
    SIMGPU_TRY(describe(func, d));
    SIMGPU_REQUIRE(resident_blocks_per_sm(*d.device, *d.info, blockSize, 0) >= numBlocks,
                   CUDA_ERROR_INVALID_VALUE);
    const uint64_t share = d.device->shared_per_sm() / uint64_t(numBlocks) / 128 * 128;
    const uint64_t system = kReservedSharedPerBlock + d.info->static_shared;
    *dynamicSmemSize = std::min<uint64_t>(share > system ? share - system : 0,
                                          d.device->shared_per_block_optin() - d.info->static_shared);
    return CUDA_SUCCESS;
  });
}

namespace {
CUresult cluster_of(const CUlaunchConfig& config, const Described& d, uint64_t& size) {
  size =
      std::max(1u, d.info->cluster[0]) * std::max(1u, d.info->cluster[1]) * std::max(1u, d.info->cluster[2]);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& c = config.attrs[i].value.clusterDim;
    size = uint64_t(c.x) * c.y * c.z;
  }
  SIMGPU_REQUIRE(size, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func,
                                              const CUlaunchConfig* config) {
  return api_call("cuOccupancyMaxPotentialClusterSize", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(clusterSize && config && (!config->numAttrs || config->attrs), CUDA_ERROR_INVALID_VALUE);
    Described d;
    SIMGPU_TRY(describe(func, d));
    SIMGPU_REQUIRE(d.device->profile->cc_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
    *clusterSize = d.settings->non_portable_cluster ? 16 : 8;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func, const CUlaunchConfig* config) {
  return api_call("cuOccupancyMaxActiveClusters", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(numClusters && config && (!config->numAttrs || config->attrs), CUDA_ERROR_INVALID_VALUE);
    Described d;
    SIMGPU_TRY(describe(func, d));
    SIMGPU_REQUIRE(d.device->profile->cc_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
    uint64_t cluster;
    SIMGPU_TRY(cluster_of(*config, d, cluster));
    SIMGPU_REQUIRE(cluster <= (d.settings->non_portable_cluster ? 16u : 8u), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    const int blocks = resident_blocks_per_sm(*d.device, *d.info,
                                              int(config->blockDimX * config->blockDimY * config->blockDimZ),
                                              config->sharedMemBytes);
    *numClusters = int(uint64_t(blocks) * uint64_t(d.device->sm_count()) / cluster);
    return CUDA_SUCCESS;
  });
}
