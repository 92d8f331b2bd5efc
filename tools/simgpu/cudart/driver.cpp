#include "tools/simgpu/cudart/driver.h"

#include <dlfcn.h>

namespace simgpu::cudart {

Driver driver;

namespace {

// Stands in for an entry point the driver lacks. It is called through pointers of many types; in the C
// calling convention the caller owns the arguments, so ignoring them is sound on the platforms CUDA has.
CUresult missing_entry() { return CUDA_ERROR_NOT_SUPPORTED; }

constexpr cuuint64_t kPerThreadFlag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

void* look_up(const char* name, int version, cuuint64_t flags) {
  void* fn = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result = driver.cuGetProcAddress(name, &fn, version, flags, &status);
  if (result != CUDA_SUCCESS || fn == nullptr) return reinterpret_cast<void*>(&missing_entry);
  return fn;
}

}  // namespace

cudaError_t load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return cudaErrorInsufficientDriver;
  driver.cuGetProcAddress =
      reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (driver.cuGetProcAddress == nullptr) return cudaErrorInsufficientDriver;
  // Ask again through the pointer: the driver may hand out a newer or an intercepted one.
  if (void* again = look_up("cuGetProcAddress", 12000, 0); again != reinterpret_cast<void*>(&missing_entry)) {
    driver.cuGetProcAddress = reinterpret_cast<PFN_cuGetProcAddress_v12000>(again);
  }
#define ENTRY(name, version) \
  driver.name = reinterpret_cast<decltype(driver.name)>(look_up(#name, version, 0));
#define DUAL(name, version, per_thread_version)                                                 \
  driver.name[kLegacy] = reinterpret_cast<PFN_##name##_v##version>(look_up(#name, version, 0)); \
  driver.name[kPerThread] =                                                                     \
      reinterpret_cast<PFN_##name##_v##version>(look_up(#name, per_thread_version, kPerThreadFlag));
#include "tools/simgpu/cudart/driver_entries.def"
#undef ENTRY
#undef DUAL
  int version = 0;
  if (driver.cuDriverGetVersion(&version) != CUDA_SUCCESS || version < CUDART_VERSION) {
    return cudaErrorInsufficientDriver;
  }
  return cudaSuccess;
}

}  // namespace simgpu::cudart
