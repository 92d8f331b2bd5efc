// Contexts: primary and created ones, the per-thread stack, limits, peer access.
#include <algorithm>

#include "tools/simgpu/driver/core/call.h"

using namespace simgpu::driver;

namespace {
// Everything a context's flags may hold; other bits are INVALID_VALUE.
constexpr unsigned kKnownFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                 CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS;

bool flags_valid(unsigned flags) {
  if (flags & ~kKnownFlags) return false;
  const unsigned sched = flags & CU_CTX_SCHED_MASK;
  return sched == CU_CTX_SCHED_AUTO || sched == CU_CTX_SCHED_SPIN || sched == CU_CTX_SCHED_YIELD ||
         sched == CU_CTX_SCHED_BLOCKING_SYNC;
}

void forget_current(const Context& context) {
  auto& stack = thread_state().contexts;
  stack.erase(std::remove_if(stack.begin(), stack.end(), [&](const auto& c) { return c.get() == &context; }),
              stack.end());
}

CUresult find_context(CUcontext handle, std::shared_ptr<Context>& out) {
  Context* context = lookup<Context>(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  out = shared(context);
  return CUDA_SUCCESS;
}

CUresult create(CUcontext* out, unsigned flags, int ordinal, unsigned version) {
  SIMGPU_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(flags_valid(flags), CUDA_ERROR_INVALID_VALUE);
  Device* device = device_at(ordinal);
  SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
  SIMGPU_TRY(fault_point("context", CUDA_ERROR_OUT_OF_MEMORY));
  auto context = create_context(*device, flags | CU_CTX_MAP_HOST, false);
  context->api_version = version;
  thread_state().contexts.push_back(context);
  *out = handle_of<CUcontext>(*context);
  return CUDA_SUCCESS;
}

CUresult release_primary(Lock& lock, Device& device, bool reset) {
  if (!device.primary) return CUDA_SUCCESS;
  if (!reset && --device.primary_count > 0) return CUDA_SUCCESS;
  std::shared_ptr<Context> context = device.primary;
  device.primary.reset();
  device.primary_count = 0;
  destroy_context(lock, *context);
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  return api_call("cuDevicePrimaryCtxRetain", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pctx, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    if (!device->primary) {
      SIMGPU_TRY(fault_point("context", CUDA_ERROR_OUT_OF_MEMORY));
      device->primary = create_context(*device, device->primary_flags | CU_CTX_MAP_HOST, true);
      device->primary_count = 0;
    }
    ++device->primary_count;
    *pctx = handle_of<CUcontext>(*device->primary);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return api_call("cuDevicePrimaryCtxRelease", kNeedsInit, [&](Lock& lock) -> CUresult {
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    SIMGPU_REQUIRE(device->primary, CUDA_ERROR_INVALID_CONTEXT);
    return release_primary(lock, *device, false);
  });
}
SIMGPU_API cuDevicePrimaryCtxRelease(CUdevice dev) { return cuDevicePrimaryCtxRelease_v2(dev); }

SIMGPU_API cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return api_call("cuDevicePrimaryCtxReset", kNeedsInit, [&](Lock& lock) -> CUresult {
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    return release_primary(lock, *device, true);
  });
}
SIMGPU_API cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }

SIMGPU_API cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  return api_call("cuDevicePrimaryCtxSetFlags", kNeedsInit, [&](Lock&) -> CUresult {
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    SIMGPU_REQUIRE(flags_valid(flags), CUDA_ERROR_INVALID_VALUE);
    device->primary_flags = flags;
    if (device->primary) device->primary->flags = flags | CU_CTX_MAP_HOST;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

SIMGPU_API cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  return api_call("cuDevicePrimaryCtxGetState", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(flags && active, CUDA_ERROR_INVALID_VALUE);
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    *flags = device->primary_flags;
    *active = device->primary != nullptr;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* params, unsigned int flags, CUdevice dev) {
  return api_call("cuCtxCreate", kNeedsInit, [&](Lock&) -> CUresult {
    if (params && (params->numExecAffinityParams || params->cigParams)) return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, dev, 3020);
  });
}
SIMGPU_API cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                          unsigned int flags, CUdevice dev) {
  return api_call("cuCtxCreate_v3", kNeedsInit, [&](Lock&) -> CUresult {
    if (paramsArray || numParams)
      return numParams < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev, 3020);
  });
}
SIMGPU_API cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return api_call("cuCtxCreate_v2", kNeedsInit,
                  [&](Lock&) -> CUresult { return create(pctx, flags, dev, 3020); });
}
SIMGPU_API cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return api_call("cuCtxCreate_v1", kNeedsInit,
                  [&](Lock&) -> CUresult { return create(pctx, flags, dev, 3010); });
}

SIMGPU_API cuCtxDestroy_v2(CUcontext ctx) {
  return api_call("cuCtxDestroy", kNeedsInit, [&](Lock& lock) -> CUresult {
    std::shared_ptr<Context> context;
    SIMGPU_TRY(find_context(ctx, context));
    SIMGPU_REQUIRE(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
    destroy_context(lock, *context);
    auto& stack = thread_state().contexts;
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

SIMGPU_API cuCtxPushCurrent_v2(CUcontext ctx) {
  return api_call("cuCtxPushCurrent", kNeedsInit, [&](Lock&) -> CUresult {
    std::shared_ptr<Context> context;
    SIMGPU_TRY(find_context(ctx, context));
    thread_state().contexts.push_back(context);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxPushCurrent(CUcontext ctx) { return cuCtxPushCurrent_v2(ctx); }

SIMGPU_API cuCtxPopCurrent_v2(CUcontext* pctx) {
  return api_call("cuCtxPopCurrent", kNeedsInit, [&](Lock&) -> CUresult {
    auto& stack = thread_state().contexts;
    SIMGPU_REQUIRE(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (pctx) *pctx = handle_of<CUcontext>(*stack.back());
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxPopCurrent(CUcontext* pctx) { return cuCtxPopCurrent_v2(pctx); }

SIMGPU_API cuCtxSetCurrent(CUcontext ctx) {
  return api_call("cuCtxSetCurrent", kNeedsInit, [&](Lock&) -> CUresult {
    auto& stack = thread_state().contexts;
    if (!ctx) {
      if (!stack.empty()) stack.pop_back();
      return CUDA_SUCCESS;
    }
    std::shared_ptr<Context> context;
    SIMGPU_TRY(find_context(ctx, context));
    if (stack.empty()) {
      stack.push_back(context);
    } else {
      stack.back() = context;
    }
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxGetCurrent(CUcontext* pctx) {
  return api_call("cuCtxGetCurrent", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pctx, CUDA_ERROR_INVALID_VALUE);
    Context* context = current_context();
    *pctx = context ? handle_of<CUcontext>(*context) : nullptr;
    return CUDA_SUCCESS;
  });
}

namespace {
// The context named, or the current one for NULL (the _v2 forms); no sticky check, as identity survives
// errors.
CUresult named_or_current(CUcontext ctx, Context*& out) {
  if (ctx) {
    out = lookup<Context>(ctx);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  }
  out = current_context();
  if (!out) return CUDA_ERROR_INVALID_CONTEXT;
  return out->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  return api_call("cuCtxGetDevice", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(named_or_current(ctx, context));
    *device = context->device->ordinal;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxGetDevice(CUdevice* device) { return cuCtxGetDevice_v2(device, nullptr); }

SIMGPU_API cuCtxGetFlags(unsigned int* flags) {
  return api_call("cuCtxGetFlags", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(flags, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    *flags = context->flags;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxSetFlags(unsigned int flags) {
  return api_call("cuCtxSetFlags", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    SIMGPU_REQUIRE(flags_valid(flags), CUDA_ERROR_INVALID_VALUE);
    context->flags = flags | CU_CTX_MAP_HOST;
    if (context->primary) context->device->primary_flags = flags;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  return api_call("cuCtxGetId", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(ctxId, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(named_or_current(ctx, context));
    *ctxId = context->id;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxSynchronize_v2(CUcontext ctx) {
  return api_call("cuCtxSynchronize", kNeedsInit, [&](Lock& lock) -> CUresult {
    Context* context;
    SIMGPU_TRY(named_or_current(ctx, context));
    if (context->sticky.load() != CUDA_SUCCESS) {
      flush_printf(*context);
      return context->sticky.load();
    }
    return synchronize_context(lock, *context);
  });
}
SIMGPU_API cuCtxSynchronize(void) { return cuCtxSynchronize_v2(nullptr); }

SIMGPU_API cuCtxSetLimit(CUlimit limit, size_t value) {
  return api_call("cuCtxSetLimit", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    switch (limit) {
      case CU_LIMIT_STACK_SIZE:
        SIMGPU_REQUIRE(value <= 524288, CUDA_ERROR_INVALID_VALUE);
        value = (value + 15) / 16 * 16;
        break;
      case CU_LIMIT_PRINTF_FIFO_SIZE:
      case CU_LIMIT_MALLOC_HEAP_SIZE:
        break;
      case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        break;
      case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        SIMGPU_REQUIRE(value <= 128, CUDA_ERROR_INVALID_VALUE);
        break;
      case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
        value = std::min<size_t>(value, size_t(context->device->profile->l2_bytes.value * 0.625));
        break;
      case CU_LIMIT_SHMEM_SIZE:
      case CU_LIMIT_CIG_ENABLED:
      case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    context->limits[limit] = value;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  return api_call("cuCtxGetLimit", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pvalue, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    SIMGPU_REQUIRE(unsigned(limit) < CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
    if (limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED ||
        limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED)
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *pvalue = context->limits[limit];
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  return api_call("cuCtxGetCacheConfig", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pconfig, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    *pconfig = context->cache_config;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxSetCacheConfig(CUfunc_cache config) {
  return api_call("cuCtxSetCacheConfig", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    SIMGPU_REQUIRE(unsigned(config) <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    context->cache_config = config;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  return api_call("cuCtxGetSharedMemConfig", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pConfig, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    *pConfig = context->shared_config;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return api_call("cuCtxSetSharedMemConfig", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    SIMGPU_REQUIRE(unsigned(config) <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;  // fixed banks on all supported architectures
  });
}

SIMGPU_API cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  return api_call("cuCtxGetApiVersion", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(named_or_current(ctx, context));
    *version = context->api_version;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return api_call("cuCtxGetStreamPriorityRange", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    if (leastPriority) *leastPriority = 0;
    if (greatestPriority) *greatestPriority = -5;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxResetPersistingL2Cache(void) {
  return api_call("cuCtxResetPersistingL2Cache", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    return require_context(context);
  });
}

SIMGPU_API cuCtxGetExecAffinity(CUexecAffinityParam* affinity, CUexecAffinityType type) {
  return api_call("cuCtxGetExecAffinity", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(affinity && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  });
}

// Deprecated reference counting of created contexts.
SIMGPU_API cuCtxAttach(CUcontext* pctx, unsigned int flags) {
  return api_call("cuCtxAttach", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pctx && flags == 0, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    *pctx = handle_of<CUcontext>(*context);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuCtxDetach(CUcontext ctx) {
  return api_call("cuCtxDetach", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(lookup<Context>(ctx), CUDA_ERROR_INVALID_CONTEXT);
    forget_current(*lookup<Context>(ctx));
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return api_call("cuCtxEnablePeerAccess", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    SIMGPU_REQUIRE(Flags == 0, CUDA_ERROR_INVALID_VALUE);
    Context* peer = lookup<Context>(peerContext);
    SIMGPU_REQUIRE(peer, CUDA_ERROR_INVALID_CONTEXT);
    SIMGPU_REQUIRE(peer != context, CUDA_ERROR_INVALID_DEVICE);
    SIMGPU_TRY(fault_point("peer_enable", CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
    SIMGPU_REQUIRE(context->device->can_access_peer(*peer->device), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    SIMGPU_REQUIRE(context->peer_contexts.insert(peer->id).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers.fetch_or(uint64_t{1} << peer->device->ordinal);
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuCtxDisablePeerAccess(CUcontext peerContext) {
  return api_call("cuCtxDisablePeerAccess", kNeedsInit, [&](Lock& lock) -> CUresult {
    Context* context;
    SIMGPU_TRY(require_context(context));
    Context* peer = lookup<Context>(peerContext);
    SIMGPU_REQUIRE(peer, CUDA_ERROR_INVALID_CONTEXT);
    SIMGPU_REQUIRE(context->peer_contexts.count(peer->id), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    SIMGPU_TRY(
        wait_for(lock, *context, context_targets(*context)));  // kernels in flight may still use the mapping
    context->peer_contexts.erase(peer->id);
    context->peers.fetch_and(~(uint64_t{1} << peer->device->ordinal));
    return CUDA_SUCCESS;
  });
}
