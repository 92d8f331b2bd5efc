// The entry points nvcc's generated code calls: registration in constructors, launch configuration, launch
// stubs. Declared in crt/host_runtime.h and in each program nvcc emits.
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/cudart/launch.h"
#include "tools/simgpu/cudart/registry.h"
#include "tools/simgpu/cudart/state.h"

#define NVCC_ABI extern "C" __attribute__((visibility("default")))

namespace simgpu::cudart {
namespace {

Module* module_of(void** handle) { return reinterpret_cast<Module*>(handle); }

// A launch stub keeps what __cudaGetKernel gave it for good. When the kernel cannot be had now, it keeps a
// tagged pointer to our record instead, so that each launch tries again and reports the true reason.
constexpr uintptr_t kUnresolvedTag = 1;
cudaKernel_t unresolved(Function* function) {
  return reinterpret_cast<cudaKernel_t>(reinterpret_cast<uintptr_t>(function) | kUnresolvedTag);
}

cudaError_t stub_launch(Flavour flavour, cudaKernel_t handle, dim3 grid, dim3 block, void** arguments,
                        size_t shared_bytes, cudaStream_t stream) {
  CUkernel kernel = handle;
  if (const auto bits = reinterpret_cast<uintptr_t>(handle); (bits & kUnresolvedTag) != 0) {
    auto* function = reinterpret_cast<Function*>(bits & ~kUnresolvedTag);
    if (const cudaError_t error = resolve_function(function, &kernel); error != cudaSuccess) return error;
  } else if (handle == nullptr) {
    return cudaErrorInvalidDeviceFunction;
  }
  return launch(flavour, kernel, grid, block, arguments, shared_bytes, stream);
}

ThreadState::Saved* configuration_slot(ThreadState& thread, uint32_t depth) {
  if (depth < ThreadState::kInlineConfigurations) return &thread.configurations[depth];
  const uint32_t index = depth - ThreadState::kInlineConfigurations;
  if (index >= thread.overflow_capacity) {
    const uint32_t capacity = thread.overflow_capacity == 0 ? 8 : thread.overflow_capacity * 2;
    void* larger = std::realloc(thread.overflow, capacity * sizeof(ThreadState::Saved));
    if (larger == nullptr) return nullptr;
    thread.overflow = static_cast<ThreadState::Saved*>(larger);
    thread.overflow_capacity = capacity;
  }
  return &thread.overflow[index];
}

}  // namespace
}  // namespace simgpu::cudart

using namespace simgpu::cudart;

NVCC_ABI void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(register_module(wrapper));
}

NVCC_ABI void __cudaRegisterFatBinaryEnd(void**) {}  // loading is lazy: nothing to do yet

NVCC_ABI void __cudaUnregisterFatBinary(void** handle) { unregister_module(module_of(handle)); }

NVCC_ABI void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* device_name,
                                     int, uint3*, uint3*, dim3*, dim3*, int*) {
  register_function(module_of(handle), host_function, device_name);
}

NVCC_ABI void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* device_name, int,
                                size_t size, int constant, int) {
  register_variable(module_of(handle), host_variable, device_name, size, constant != 0, nullptr);
}

NVCC_ABI void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char* device_name,
                                       int, size_t size, int constant, int) {
  register_variable(module_of(handle), host_pointer, device_name, size, constant != 0, host_pointer);
}

// First touch of a managed variable by the host. A non-zero answer is kept by the caller, and the call not
// repeated.
NVCC_ABI char __cudaInitModule(void** handle) {
  const cudaError_t error = with_context([&] { return load_module(module_of(handle)); });
  return error == cudaSuccess ? 1 : 0;
}

NVCC_ABI unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                              CUstream_st* stream) {
  ThreadState& thread = thread_state();
  ThreadState::Saved* slot = configuration_slot(thread, thread.configuration_count);
  if (slot == nullptr) return record(cudaErrorMemoryAllocation);
  *slot = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, stream};
  ++thread.configuration_count;
  return 0;
}

NVCC_ABI cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  ThreadState& thread = thread_state();
  if (thread.configuration_count == 0) return record(cudaErrorMissingConfiguration);
  const ThreadState::Saved& saved = *configuration_slot(thread, --thread.configuration_count);
  *grid = dim3(saved.grid[0], saved.grid[1], saved.grid[2]);
  *block = dim3(saved.block[0], saved.block[1], saved.block[2]);
  *shared_bytes = saved.shared_bytes;
  std::memcpy(stream, &saved.stream, sizeof(cudaStream_t));
  return cudaSuccess;
}

NVCC_ABI cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  Function* function = find_function(host_function);
  *kernel = function == nullptr ? nullptr : unresolved(function);
  return with_context([&]() -> cudaError_t {
    CUkernel resolved = nullptr;
    if (const cudaError_t error = resolve_kernel(host_function, &resolved); error != cudaSuccess)
      return error;
    *kernel = resolved;
    return cudaSuccess;
  });
}

NVCC_ABI cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                        size_t shared_bytes, cudaStream_t stream) {
  return with_context(
      [&] { return stub_launch(kLegacy, kernel, grid, block, arguments, shared_bytes, stream); });
}

NVCC_ABI cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                             size_t shared_bytes, cudaStream_t stream) {
  return with_context(
      [&] { return stub_launch(kPerThread, kernel, grid, block, arguments, shared_bytes, stream); });
}
