// The launch calls of the first CUDA versions (block shape and parameters set on the function). Still in the
// header.
#include <cstring>
#include <map>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/launch.h"

using namespace simgpu::driver;

namespace {
struct Staged {
  simgpu::exec::Dim3 block;
  unsigned shared = 0;
  std::vector<uint8_t> parameters;
};
// Kept per function handle; never destroyed.
std::map<CUfunction, Staged>& staged() {
  static auto* all = new std::map<CUfunction, Staged>;
  return *all;
}
CUresult find(CUfunction f, Staged*& out) {
  SIMGPU_REQUIRE(lookup<Function>(f), CUDA_ERROR_INVALID_HANDLE);
  out = &staged()[f];
  return CUDA_SUCCESS;
}
CUresult put(CUfunction f, int offset, const void* data, unsigned bytes) {
  Staged* s;
  SIMGPU_TRY(find(f, s));
  SIMGPU_REQUIRE(offset >= 0 && data && offset + bytes <= 32764, CUDA_ERROR_INVALID_VALUE);
  if (s->parameters.size() < offset + bytes) s->parameters.resize(offset + bytes);
  memcpy(s->parameters.data() + offset, data, bytes);
  return CUDA_SUCCESS;
}
CUresult go(Lock& lock, CUfunction f, int width, int height, CUstream handle) {
  Staged* s;
  SIMGPU_TRY(find(f, s));
  SIMGPU_REQUIRE(width > 0 && height > 0, CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(handle, stream, context));
  LaunchRequest request;
  request.grid = {unsigned(width), unsigned(height), 1};
  request.block = s->block;
  request.dynamic_shared = s->shared;
  size_t size = s->parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, s->parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  KernelLaunch launch;
  SIMGPU_TRY(prepare_launch(*context, f, request, nullptr, extra, launch));
  return submit(lock, stream, std::make_shared<KernelBody>(std::move(launch)));
}
}  // namespace

SIMGPU_API cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  return api_call("cuFuncSetBlockShape", kNeedsInit, [&](Lock&) -> CUresult {
    Staged* s;
    SIMGPU_TRY(find(hfunc, s));
    SIMGPU_REQUIRE(x > 0 && y > 0 && z > 0 && x <= 1024 && y <= 1024 && z <= 64 && x * y * z <= 1024,
                   CUDA_ERROR_INVALID_VALUE);
    s->block = {unsigned(x), unsigned(y), unsigned(z)};
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  return api_call("cuFuncSetSharedSize", kNeedsInit, [&](Lock&) -> CUresult {
    Staged* s;
    SIMGPU_TRY(find(hfunc, s));
    s->shared = bytes;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  return api_call("cuParamSetSize", kNeedsInit, [&](Lock&) -> CUresult {
    Staged* s;
    SIMGPU_TRY(find(hfunc, s));
    SIMGPU_REQUIRE(numbytes <= 32764, CUDA_ERROR_INVALID_VALUE);
    s->parameters.resize(numbytes);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return api_call("cuParamSeti", kNeedsInit,
                  [&](Lock&) -> CUresult { return put(hfunc, offset, &value, sizeof value); });
}
SIMGPU_API cuParamSetf(CUfunction hfunc, int offset, float value) {
  return api_call("cuParamSetf", kNeedsInit,
                  [&](Lock&) -> CUresult { return put(hfunc, offset, &value, sizeof value); });
}
SIMGPU_API cuParamSetv(CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
  return api_call("cuParamSetv", kNeedsInit,
                  [&](Lock&) -> CUresult { return put(hfunc, offset, ptr, numbytes); });
}
SIMGPU_API cuLaunch(CUfunction f) {
  return api_call("cuLaunch", kNeedsInit, [&](Lock& lock) -> CUresult { return go(lock, f, 1, 1, nullptr); });
}
SIMGPU_API cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return api_call("cuLaunchGrid", kNeedsInit,
                  [&](Lock& lock) -> CUresult { return go(lock, f, grid_width, grid_height, nullptr); });
}
SIMGPU_API cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  return api_call("cuLaunchGridAsync", kNeedsInit,
                  [&](Lock& lock) -> CUresult { return go(lock, f, grid_width, grid_height, hStream); });
}
