// Kernel launches.
#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/launch.h"

using namespace simgpu::driver;

namespace {
CUresult launch(Lock& lock, CUfunction f, const LaunchRequest& request, CUstream handle, void** params,
                void** extra) {
  SIMGPU_REQUIRE(f, CUDA_ERROR_INVALID_HANDLE);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(handle, stream, context));
  charge_host(context->device->launch_ns > context->device->host_call_ns
                  ? context->device->launch_ns - context->device->host_call_ns
                  : 0);
  if (Function* function = lookup<Function>(f)) {
    auto module = function->module.lock();
    SIMGPU_REQUIRE(module && module->context.lock() == context, CUDA_ERROR_INVALID_HANDLE);
  }
  SIMGPU_TRY(fault_point("launch", CUDA_ERROR_LAUNCH_FAILED));
  KernelLaunch l;
  LaunchExtras extras;
  SIMGPU_TRY(prepare_launch(*context, f, request, params, extra, l, &extras));
  OpRef op;
  SIMGPU_TRY(submit(lock, stream, std::make_shared<KernelBody>(std::move(l)), &op));
  if (!extras.completion_event) return CUDA_SUCCESS;
  if (Event* event = lookup<Event>(extras.completion_event); !op) {  // captured
    bool handled = false;
    return g_record_event_hook ? g_record_event_hook(lock, stream, *event, 0, handled) : CUDA_SUCCESS;
  } else {
    event->record = op;
    event->recorded = true;
  }
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                          unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                          unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
  return api_call("cuLaunchKernel", kNeedsInit, [&](Lock& lock) -> CUresult {
    LaunchRequest request;
    request.grid = {gridDimX, gridDimY, gridDimZ};
    request.block = {blockDimX, blockDimY, blockDimZ};
    request.dynamic_shared = sharedMemBytes;
    return launch(lock, f, request, hStream, kernelParams, extra);
  });
}

SIMGPU_API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  return api_call("cuLaunchKernelEx", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(config && (!config->numAttrs || config->attrs), CUDA_ERROR_INVALID_VALUE);
    LaunchRequest request;
    request.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
    request.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
    request.dynamic_shared = config->sharedMemBytes;
    request.attributes = config->attrs;
    request.attribute_count = config->numAttrs;
    return launch(lock, f, request, config->hStream, kernelParams, extra);
  });
}

SIMGPU_API cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                     unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                     unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                     void** kernelParams) {
  return api_call("cuLaunchCooperativeKernel", kNeedsInit, [&](Lock& lock) -> CUresult {
    LaunchRequest request;
    request.grid = {gridDimX, gridDimY, gridDimZ};
    request.block = {blockDimX, blockDimY, blockDimZ};
    request.dynamic_shared = sharedMemBytes;
    request.cooperative = true;
    return launch(lock, f, request, hStream, kernelParams, nullptr);
  });
}
