#include "tools/simgpu/cudart/state.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "tools/simgpu/cudart/registry.h"

namespace simgpu::cudart {
namespace {

struct DeviceState {
  CUdevice handle = 0;
  std::atomic<CUcontext> primary{nullptr};  // last one retained; kept after a reset, to recognise it as stale
  std::atomic<bool> active{false};
};

constexpr int kNotStarted = -1;

std::mutex lock;  // guards the start, retaining, resets and the list of valid devices
std::atomic<int> start_result{kNotStarted};
std::atomic<bool> unloading{false};
std::atomic<uint32_t> reset_generation{0};
DeviceState* devices = nullptr;
int count = 0;
std::atomic<int*> valid_devices{nullptr};
std::atomic<int> valid_device_count{0};

thread_local __attribute__((tls_model("initial-exec"))) ThreadState thread{};

void before_fork() {
  lock.lock();
  lock_registry();
}
void after_fork_in_parent() {
  unlock_registry();
  lock.unlock();
}
void after_fork_in_child() {
  // The driver's threads are gone: a child cannot use what its parent started.
  if (start_result.load(std::memory_order_relaxed) == cudaSuccess) {
    start_result.store(cudaErrorInitializationError, std::memory_order_relaxed);
  }
  unlock_registry();
  lock.unlock();
}

cudaError_t start_locked() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (const cudaError_t error = load_driver(); error != cudaSuccess) return error;
  if (const CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) return to_runtime(result);
  if (const CUresult result = driver.cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    return to_runtime(result);
  }
  if (count == 0) return cudaErrorNoDevice;
  devices = new DeviceState[count];
  for (int i = 0; i < count; ++i) {
    if (const CUresult result = driver.cuDeviceGet(&devices[i].handle, i); result != CUDA_SUCCESS) {
      return to_runtime(result);
    }
  }
  return cudaSuccess;
}

int ordinal_of(CUdevice handle) {
  for (int i = 0; i < count; ++i) {
    if (devices[i].handle == handle) return i;
  }
  return -1;
}

cudaError_t bind_primary(int ordinal) {
  CUcontext context = nullptr;
  if (const cudaError_t error = retain_primary(ordinal, &context); error != cudaSuccess) return error;
  const CUresult result = driver.cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) return to_runtime(result);
  thread.checked_context = context;
  thread.checked_generation = reset_generation.load(std::memory_order_acquire);
  return cudaSuccess;
}

// The thread has no usable context: the device it chose, or the first of the valid ones that can be had.
cudaError_t bind_default() {
  if (thread.device > 0) return bind_primary(thread.device - 1);
  cudaError_t error = cudaErrorDevicesUnavailable;
  const int listed = valid_device_count.load(std::memory_order_acquire);
  const int candidates = listed > 0 ? listed : count;
  for (int i = 0; i < candidates; ++i) {
    const int ordinal = listed > 0 ? valid_devices.load(std::memory_order_acquire)[i] : i;
    error = bind_primary(ordinal);
    if (error != cudaErrorDevicesUnavailable) return error;
  }
  return error;
}

cudaError_t check_context(CUcontext context) {
  for (int i = 0; i < count; ++i) {
    if (devices[i].primary.load(std::memory_order_acquire) != context) continue;
    // Reset by another thread since this one bound it.
    if (!devices[i].active.load(std::memory_order_acquire)) return bind_primary(i);
    break;
  }
  thread.checked_context = context;
  thread.checked_generation = reset_generation.load(std::memory_order_acquire);
  return cudaSuccess;
}

// Process exit. Handlers of the program that use the runtime ran before; only the references held here go
// back.
__attribute__((destructor)) void at_exit() {
  if (unloading.exchange(true) || start_result.load(std::memory_order_acquire) != cudaSuccess) return;
  for (int i = 0; i < count; ++i) {
    if (devices[i].active.exchange(false)) driver.cuDevicePrimaryCtxRelease(devices[i].handle);
  }
}

}  // namespace

ThreadState& thread_state() { return thread; }

cudaError_t start() {
  const int known = start_result.load(std::memory_order_acquire);
  if (known == cudaSuccess) [[likely]] {
    return unloading.load(std::memory_order_relaxed) ? cudaErrorCudartUnloading : cudaSuccess;
  }
  if (known != kNotStarted) return static_cast<cudaError_t>(known);
  const std::lock_guard guard(lock);
  if (start_result.load(std::memory_order_relaxed) == kNotStarted) {
    start_result.store(start_locked(), std::memory_order_release);
  }
  return static_cast<cudaError_t>(start_result.load(std::memory_order_relaxed));
}

cudaError_t enter() {
  if (const cudaError_t error = start(); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  const CUresult result = driver.cuCtxGetCurrent(&context);
  if (result != CUDA_SUCCESS) return to_runtime(result);
  if (context == nullptr) return bind_default();
  if (context == thread.checked_context &&
      thread.checked_generation == reset_generation.load(std::memory_order_acquire)) [[likely]] {
    return cudaSuccess;
  }
  return check_context(context);
}

int device_count() { return count; }
CUdevice device_handle(int ordinal) { return devices[ordinal].handle; }
bool valid_device(int ordinal) { return ordinal >= 0 && ordinal < count; }

int current_device() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr &&
      driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    if (const int ordinal = ordinal_of(device); ordinal >= 0) return ordinal;
  }
  if (thread.device > 0) return thread.device - 1;
  return valid_device_count.load() > 0 ? valid_devices.load()[0] : 0;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  driver.cuCtxGetCurrent(&context);
  return context;
}

cudaError_t retain_primary(int ordinal, CUcontext* context) {
  DeviceState& device = devices[ordinal];
  if (device.active.load(std::memory_order_acquire)) {
    *context = device.primary.load(std::memory_order_acquire);
    return cudaSuccess;
  }
  {
    const std::lock_guard guard(lock);
    if (!device.active.load(std::memory_order_relaxed)) {
      CUcontext retained = nullptr;
      const CUresult result = driver.cuDevicePrimaryCtxRetain(&retained, device.handle);
      if (result != CUDA_SUCCESS) return to_runtime(result);
      device.primary.store(retained, std::memory_order_release);
      device.active.store(true, std::memory_order_release);
    }
    *context = device.primary.load(std::memory_order_relaxed);
  }
  // Managed variables and eager loading want the context current; the caller's own choice is put back.
  CUcontext previous = nullptr;
  driver.cuCtxGetCurrent(&previous);
  driver.cuCtxSetCurrent(*context);
  modules_on_new_context();
  driver.cuCtxSetCurrent(previous);
  return cudaSuccess;
}

bool primary_is_active(int ordinal) { return devices[ordinal].active.load(std::memory_order_acquire); }

cudaError_t reset_primary(int ordinal) {
  DeviceState& device = devices[ordinal];
  const std::lock_guard guard(lock);
  const bool was_active = device.active.exchange(false, std::memory_order_acq_rel);
  reset_generation.fetch_add(1, std::memory_order_acq_rel);
  const CUresult result = driver.cuDevicePrimaryCtxReset(device.handle);
  // A reset leaves the reference count alone; ours would otherwise grow by one with every reset.
  if (was_active) driver.cuDevicePrimaryCtxRelease(device.handle);
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
      current == device.primary.load(std::memory_order_relaxed)) {
    driver.cuCtxSetCurrent(nullptr);
  }
  return to_runtime(result);
}

cudaError_t set_valid_devices(const int* ordinals, int length) {
  const std::lock_guard guard(lock);
  if (length == 0) {
    valid_device_count = 0;
    return cudaSuccess;
  }
  auto* copy = new int[length];  // an older list is leaked: another thread may be reading it
  for (int i = 0; i < length; ++i) {
    if (!valid_device(ordinals[i])) {
      delete[] copy;
      return cudaErrorInvalidDevice;
    }
    copy[i] = ordinals[i];
  }
  valid_devices = copy;
  valid_device_count = length;
  return cudaSuccess;
}

}  // namespace simgpu::cudart
