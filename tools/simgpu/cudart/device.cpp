// Devices: choosing one, its flags, limits, caches, peers, reset and synchronisation.
#include <cstring>

#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

cudaError_t check_device(int device) { return valid_device(device) ? cudaSuccess : cudaErrorInvalidDevice; }

// Body of a call about one device that needs no context.
template <typename Body>
cudaError_t on_device(int device, Body&& body, const char* function = __builtin_FUNCTION()) {
  return with_driver(
      [&]() -> cudaError_t {
        if (const cudaError_t error = check_device(device); error != cudaSuccess) return error;
        return to_runtime(body(device_handle(device)));
      },
      function);
}

constexpr unsigned kSettableFlags =
    cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;

// One scheduling policy at most, and no bit without a meaning.
bool valid_device_flags(unsigned flags) {
  const unsigned schedule = flags & cudaDeviceScheduleMask;
  return (flags & ~kSettableFlags) == 0 && (schedule & (schedule - 1)) == 0;
}

// Mapped host memory is implicit in the runtime; the driver's flag word keeps no bit for it.
unsigned driver_flags(unsigned flags) { return flags & ~unsigned{cudaDeviceMapHost}; }

}  // namespace

CUDART_API cudaError_t cudaGetDeviceCount(int* count) {
  return guarded([&]() -> cudaError_t {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = 0;
    if (const cudaError_t error = start(); error != cudaSuccess) return error;
    *count = device_count();
    return cudaSuccess;
  });
}

CUDART_API cudaError_t cudaGetDevice(int* device) {
  return with_driver([&]() -> cudaError_t {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = current_device();
    return cudaSuccess;
  });
}

CUDART_API cudaError_t cudaSetDevice(int device) {
  return with_driver([&]() -> cudaError_t {
    if (const cudaError_t error = check_device(device); error != cudaSuccess) return error;
    CUcontext context = nullptr;
    if (const cudaError_t error = retain_primary(device, &context); error != cudaSuccess) return error;
    if (const CUresult result = driver.cuCtxSetCurrent(context); result != CUDA_SUCCESS) {
      return to_runtime(result);
    }
    thread_state().device = device + 1;
    return cudaSuccess;
  });
}

CUDART_API cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  return on_device(device, [&](CUdevice handle) -> cudaError_t {
    if ((flags & ~unsigned{cudaInitDeviceFlagsAreValid}) != 0) return cudaErrorInvalidValue;
    if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
      if (!valid_device_flags(deviceFlags)) return cudaErrorInvalidValue;
      const CUresult result = driver.cuDevicePrimaryCtxSetFlags(handle, driver_flags(deviceFlags));
      if (result != CUDA_SUCCESS) return to_runtime(result);
    }
    CUcontext context = nullptr;
    return retain_primary(device, &context);
  });
}

CUDART_API cudaError_t cudaSetValidDevices(int* device_arr, int len) {
  return with_driver([&]() -> cudaError_t {
    if (len < 0 || len > device_count() || (len > 0 && device_arr == nullptr)) return cudaErrorInvalidValue;
    return set_valid_devices(device_arr, len);
  });
}

CUDART_API cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return with_driver([&]() -> cudaError_t {
    if (!valid_device_flags(flags)) return cudaErrorInvalidValue;
    const int device = current_device();
    const CUresult result = driver.cuDevicePrimaryCtxSetFlags(device_handle(device), driver_flags(flags));
    if (result != CUDA_SUCCESS) return to_runtime(result);
    return enter();
  });
}

CUDART_API cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return with_driver([&]() -> cudaError_t {
    if (flags == nullptr) return cudaErrorInvalidValue;
    if (current_context() != nullptr) return to_runtime(driver.cuCtxGetFlags(flags));
    int active = 0;
    const CUresult result =
        driver.cuDevicePrimaryCtxGetState(device_handle(current_device()), flags, &active);
    *flags |= cudaDeviceMapHost;
    return to_runtime(result);
  });
}

CUDART_API cudaError_t cudaDeviceReset() {
  return with_driver([]() -> cudaError_t {
    // A context the application made itself is not the runtime's to destroy.
    const int device = current_device();
    const CUcontext current = current_context();
    if (current != nullptr) {
      CUcontext primary = nullptr;
      if (!primary_is_active(device)) return cudaSuccess;
      if (retain_primary(device, &primary) == cudaSuccess && primary != current) return cudaSuccess;
    }
    return reset_primary(device);
  });
}

CUDART_API cudaError_t cudaDeviceSynchronize() {
  return with_context([] { return driver.cuCtxSynchronize(current_context()); });
}

CUDART_API cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return with_context([&] { return driver.cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

CUDART_API cudaError_t cudaDeviceGetLimit(size_t* pValue, cudaLimit limit) {
  return with_context([&] { return driver.cuCtxGetLimit(pValue, static_cast<CUlimit>(limit)); });
}

CUDART_API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* pCacheConfig) {
  return with_context(
      [&] { return driver.cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(pCacheConfig)); });
}

CUDART_API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache cacheConfig) {
  return with_context([&] { return driver.cuCtxSetCacheConfig(static_cast<CUfunc_cache>(cacheConfig)); });
}

CUDART_API cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* pConfig) {
  return with_context(
      [&] { return driver.cuCtxGetSharedMemConfig(reinterpret_cast<CUsharedconfig*>(pConfig)); });
}

CUDART_API cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return with_context([&] { return driver.cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(config)); });
}

CUDART_API cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return with_context([&] { return driver.cuCtxGetStreamPriorityRange(leastPriority, greatestPriority); });
}

CUDART_API cudaError_t cudaCtxResetPersistingL2Cache() {
  return with_context([] { return driver.cuCtxResetPersistingL2Cache(); });
}

CUDART_API cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                                          cudaFlushGPUDirectRDMAWritesScope scope) {
  return with_context([&] {
    return driver.cuFlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                             static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
  });
}

CUDART_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  return with_driver([&]() -> cudaError_t {
    if (device == nullptr || pciBusId == nullptr) return cudaErrorInvalidValue;
    CUdevice handle = 0;
    const CUresult result = driver.cuDeviceGetByPCIBusId(&handle, pciBusId);
    if (result != CUDA_SUCCESS) return to_runtime(result);
    for (int i = 0; i < device_count(); ++i) {
      if (device_handle(i) != handle) continue;
      *device = i;
      return cudaSuccess;
    }
    return cudaErrorInvalidDevice;
  });
}

CUDART_API cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return on_device(device,
                   [&](CUdevice handle) { return driver.cuDeviceGetPCIBusId(pciBusId, len, handle); });
}

CUDART_API cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return on_device(device, [&](CUdevice handle) -> cudaError_t {
    if (const cudaError_t error = check_device(peerDevice); error != cudaSuccess) return error;
    return to_runtime(driver.cuDeviceCanAccessPeer(canAccessPeer, handle, device_handle(peerDevice)));
  });
}

CUDART_API cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return with_context([&]() -> cudaError_t {
    if (const cudaError_t error = check_device(peerDevice); error != cudaSuccess) return error;
    if (flags != 0) return cudaErrorInvalidValue;
    CUcontext peer = nullptr;
    if (const cudaError_t error = retain_primary(peerDevice, &peer); error != cudaSuccess) return error;
    return to_runtime(driver.cuCtxEnablePeerAccess(peer, flags));
  });
}

CUDART_API cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
  return with_context([&]() -> cudaError_t {
    if (const cudaError_t error = check_device(peerDevice); error != cudaSuccess) return error;
    if (!primary_is_active(peerDevice)) return cudaErrorPeerAccessNotEnabled;
    CUcontext peer = nullptr;
    if (const cudaError_t error = retain_primary(peerDevice, &peer); error != cudaSuccess) return error;
    return to_runtime(driver.cuCtxDisablePeerAccess(peer));
  });
}

CUDART_API cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr, int srcDevice,
                                                 int dstDevice) {
  return on_device(srcDevice, [&](CUdevice source) -> cudaError_t {
    if (const cudaError_t error = check_device(dstDevice); error != cudaSuccess) return error;
    return to_runtime(driver.cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attr), source,
                                                     device_handle(dstDevice)));
  });
}

CUDART_API cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned int* capabilities,
                                                          const cudaAtomicOperation* operations,
                                                          unsigned int count, int srcDevice, int dstDevice) {
  return on_device(srcDevice, [&](CUdevice source) -> cudaError_t {
    if (const cudaError_t error = check_device(dstDevice); error != cudaSuccess) return error;
    return to_runtime(driver.cuDeviceGetP2PAtomicCapabilities(
        capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, source,
        device_handle(dstDevice)));
  });
}

CUDART_API cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned int* capabilities,
                                                           const cudaAtomicOperation* operations,
                                                           unsigned int count, int device) {
  return on_device(device, [&](CUdevice handle) {
    return driver.cuDeviceGetHostAtomicCapabilities(
        capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, handle);
  });
}

CUDART_API cudaError_t cudaDeviceGetNvSciSyncAttributes(void* nvSciSyncAttrList, int device, int flags) {
  return on_device(device, [&](CUdevice handle) {
    return driver.cuDeviceGetNvSciSyncAttributes(nvSciSyncAttrList, handle, flags);
  });
}

CUDART_API cudaError_t cudaDeviceRegisterAsyncNotification(int device, cudaAsyncCallback callbackFunc,
                                                           void* userData,
                                                           cudaAsyncCallbackHandle_t* callback) {
  static_assert(sizeof(cudaAsyncNotificationInfo_t) == sizeof(CUasyncNotificationInfo));
  return on_device(device, [&](CUdevice handle) {
    return driver.cuDeviceRegisterAsyncNotification(handle, reinterpret_cast<CUasyncCallback>(callbackFunc),
                                                    userData,
                                                    reinterpret_cast<CUasyncCallbackHandle*>(callback));
  });
}

CUDART_API cudaError_t cudaDeviceUnregisterAsyncNotification(int device, cudaAsyncCallbackHandle_t callback) {
  return on_device(device, [&](CUdevice handle) {
    return driver.cuDeviceUnregisterAsyncNotification(handle,
                                                      reinterpret_cast<CUasyncCallbackHandle>(callback));
  });
}

CUDART_API cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return guarded([&]() -> cudaError_t {
    if (driverVersion == nullptr) return cudaErrorInvalidValue;
    // No driver is version 0 and no error; a driver too old still tells its version.
    *driverVersion = 0;
    start();
    if (driver.cuDriverGetVersion != nullptr) return to_runtime(driver.cuDriverGetVersion(driverVersion));
    return cudaSuccess;
  });
}

CUDART_API cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  return guarded([&]() -> cudaError_t {
    if (runtimeVersion == nullptr) return cudaErrorInvalidValue;
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
  });
}

CUDART_API cudaError_t cudaProfilerStart() {
  return with_context([] { return driver.cuProfilerStart(); });
}

CUDART_API cudaError_t cudaProfilerStop() {
  return with_context([] { return driver.cuProfilerStop(); });
}
