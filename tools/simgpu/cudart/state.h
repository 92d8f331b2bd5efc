// The runtime's own state: start of the driver, devices and their primary contexts, the calling thread's
// device.
//
// One instance per process, constant-initialised and leaked. Any thread may call anything. A child of fork()
// whose parent had started CUDA gets cudaErrorInitializationError, as from NVIDIA's runtime. After this
// library's own finaliser ran (process exit), calls answer cudaErrorCudartUnloading.
#pragma once
#include <atomic>
#include <exception>
#include <utility>

#include "tools/simgpu/cudart/errors.h"
#include "tools/simgpu/cudart/watch.h"

namespace simgpu::cudart {

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// Everything the runtime keeps per thread. Trivial, so that no thread-exit handler is needed.
struct ThreadState {
  static constexpr int kInlineConfigurations = 2;
  cudaError_t last_error;
  int device;                   // chosen by cudaSetDevice, plus 1; 0: none chosen
  CUcontext checked_context;    // last context found usable ...
  uint32_t checked_generation;  // ... while this many resets had happened
  uint32_t configuration_count;
  // Set by __cudaPushCallConfiguration, taken by the launch stub. Deeper nesting (a kernel launched while the
  // arguments of another are evaluated, again) goes to the heap.
  struct Saved {
    unsigned grid[3], block[3];
    size_t shared_bytes;
    cudaStream_t stream;
  } configurations[kInlineConfigurations];
  Saved* overflow;
  uint32_t overflow_capacity;
};
ThreadState& thread_state();

// Loads the driver, cuInit, counts devices; the first outcome is kept.
cudaError_t start();
// start(), and a context is current to the calling thread: the application's own if it made one current, else
// the primary context of the thread's device.
cudaError_t enter();

int device_count();                   // valid after start()
CUdevice device_handle(int ordinal);  // unchecked
bool valid_device(int ordinal);
// Ordinal of the device of the thread's current context, or the one a context would be made on.
int current_device();
// The current context; only after enter().
CUcontext current_context();

// Retains the device's primary context if this runtime does not hold it yet.
cudaError_t retain_primary(int ordinal, CUcontext* context);
bool primary_is_active(int ordinal);
// cudaDeviceReset: destroys the primary context; the next call makes a new one.
cudaError_t reset_primary(int ordinal);
// cudaSetValidDevices.
cudaError_t set_valid_devices(const int* ordinals, int count);

// Bodies of API functions. A body returns CUresult or cudaError_t. `function` is the API function's name, for
// CUPTI: where the body is not written in the function itself, pass it on.
template <typename Body>
cudaError_t guarded(Body&& body, const char* function = __builtin_FUNCTION()) {
  WatchedCall call(function);
  try {
    return call.leaves_with(record(to_runtime(body())));
  } catch (...) {  // only allocation can throw
    return call.leaves_with(record(cudaErrorMemoryAllocation));
  }
}
template <typename Body>
cudaError_t with_context(Body&& body, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&]() -> cudaError_t {
        if (const cudaError_t error = enter(); error != cudaSuccess) return error;
        return to_runtime(body());
      },
      function);
}
template <typename Body>
cudaError_t with_driver(Body&& body, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&]() -> cudaError_t {
        if (const cudaError_t error = start(); error != cudaSuccess) return error;
        return to_runtime(body());
      },
      function);
}

// Defines one API function in both default-stream forms; `impl` takes the flavour, then the arguments.
#define CUDART_API extern "C"
#define CUDART_DUAL(suffix, name, params, impl, ...)                                      \
  CUDART_API cudaError_t name params {                                                    \
    return ::simgpu::cudart::with_context([&] { return impl(kLegacy, __VA_ARGS__); });    \
  }                                                                                       \
  CUDART_API cudaError_t name##suffix params {                                            \
    return ::simgpu::cudart::with_context([&] { return impl(kPerThread, __VA_ARGS__); }); \
  }

}  // namespace simgpu::cudart
