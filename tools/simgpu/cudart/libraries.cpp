// Libraries loaded by the program itself, and the way from the runtime to the driver's entry points.
#include <vector>

#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

static_assert(int(cudaJitOverrideDirectiveValues) == int(CU_JIT_OVERRIDE_DIRECTIVE_VALUES) &&
              int(cudaLibraryBinaryIsPreserved) == int(CU_LIBRARY_BINARY_IS_PRESERVED));
static_assert(int(cudaDriverEntryPointVersionNotSufficent) ==
              int(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));

cudaError_t entry_point(Flavour flavour, const char* symbol, void** function, int version,
                        unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr || flags > cudaEnablePerThreadDefaultStream) {
    return cudaErrorInvalidValue;
  }
  const cudaError_t started = start();
  // Looking functions up needs the driver, but no device.
  if (driver.cuGetProcAddress == nullptr) return started;
  if (flags == cudaEnableDefault) {
    flags = flavour == kPerThread ? cudaEnablePerThreadDefaultStream : cudaEnableLegacyStream;
  }
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  void* address = nullptr;
  const CUresult result = driver.cuGetProcAddress(symbol, &address, version, flags, &found);
  *function = result == CUDA_SUCCESS ? address : nullptr;
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  // That a function is absent is an answer, not a failure.
  return result == CUDA_ERROR_NOT_FOUND ? cudaSuccess : to_runtime(result);
}

}  // namespace

CUDART_API cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                           cudaJitOption* jitOptions, void** jitOptionsValues,
                                           unsigned int numJitOptions, cudaLibraryOption* libraryOptions,
                                           void** libraryOptionValues, unsigned int numLibraryOptions) {
  return with_context([&] {
    return driver.cuLibraryLoadData(
        library, code, reinterpret_cast<CUjit_option*>(jitOptions), jitOptionsValues, numJitOptions,
        reinterpret_cast<CUlibraryOption*>(libraryOptions), libraryOptionValues, numLibraryOptions);
  });
}

CUDART_API cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* fileName,
                                               cudaJitOption* jitOptions, void** jitOptionsValues,
                                               unsigned int numJitOptions, cudaLibraryOption* libraryOptions,
                                               void** libraryOptionValues, unsigned int numLibraryOptions) {
  return with_context([&] {
    return driver.cuLibraryLoadFromFile(
        library, fileName, reinterpret_cast<CUjit_option*>(jitOptions), jitOptionsValues, numJitOptions,
        reinterpret_cast<CUlibraryOption*>(libraryOptions), libraryOptionValues, numLibraryOptions);
  });
}

CUDART_API cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return with_context([&] { return driver.cuLibraryUnload(library); });
}

CUDART_API cudaError_t cudaLibraryGetKernel(cudaKernel_t* pKernel, cudaLibrary_t library, const char* name) {
  return with_context([&] { return driver.cuLibraryGetKernel(pKernel, library, name); });
}

CUDART_API cudaError_t cudaLibraryGetGlobal(void** dptr, size_t* bytes, cudaLibrary_t library,
                                            const char* name) {
  return with_context(
      [&] { return driver.cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(dptr), bytes, library, name); });
}

CUDART_API cudaError_t cudaLibraryGetManaged(void** dptr, size_t* bytes, cudaLibrary_t library,
                                             const char* name) {
  return with_context(
      [&] { return driver.cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(dptr), bytes, library, name); });
}

CUDART_API cudaError_t cudaLibraryGetUnifiedFunction(void** fptr, cudaLibrary_t library, const char* symbol) {
  return with_context([&] { return driver.cuLibraryGetUnifiedFunction(fptr, library, symbol); });
}

CUDART_API cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t lib) {
  return with_context([&] { return driver.cuLibraryGetKernelCount(count, lib); });
}

CUDART_API cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int numKernels,
                                                   cudaLibrary_t lib) {
  return with_context([&] { return driver.cuLibraryEnumerateKernels(kernels, numKernels, lib); });
}

CUDART_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                               cudaDriverEntryPointQueryResult* driverStatus) {
  return guarded([&] { return entry_point(kLegacy, symbol, funcPtr, CUDART_VERSION, flags, driverStatus); });
}
CUDART_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** funcPtr,
                                                    unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* driverStatus) {
  return guarded(
      [&] { return entry_point(kPerThread, symbol, funcPtr, CUDART_VERSION, flags, driverStatus); });
}

CUDART_API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr,
                                                        unsigned int cudaVersion, unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult* driverStatus) {
  return guarded([&] {
    return entry_point(kLegacy, symbol, funcPtr, static_cast<int>(cudaVersion), flags, driverStatus);
  });
}
CUDART_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** funcPtr,
                                                             unsigned int cudaVersion,
                                                             unsigned long long flags,
                                                             cudaDriverEntryPointQueryResult* driverStatus) {
  return guarded([&] {
    return entry_point(kPerThread, symbol, funcPtr, static_cast<int>(cudaVersion), flags, driverStatus);
  });
}

CUDART_API cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t callbackFunc, void* userData,
                                                cudaLogsCallbackHandle* callback_out) {
  return with_driver([&] {
    return driver.cuLogsRegisterCallback(reinterpret_cast<CUlogsCallback>(callbackFunc), userData,
                                         reinterpret_cast<CUlogsCallbackHandle*>(callback_out));
  });
}
CUDART_API cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle callback) {
  return with_driver(
      [&] { return driver.cuLogsUnregisterCallback(reinterpret_cast<CUlogsCallbackHandle>(callback)); });
}
CUDART_API cudaError_t cudaLogsCurrent(cudaLogIterator* iterator_out, unsigned int flags) {
  return with_driver([&] { return driver.cuLogsCurrent(iterator_out, flags); });
}
CUDART_API cudaError_t cudaLogsDumpToFile(cudaLogIterator* iterator, const char* pathToFile,
                                          unsigned int flags) {
  return with_driver([&] { return driver.cuLogsDumpToFile(iterator, pathToFile, flags); });
}
CUDART_API cudaError_t cudaLogsDumpToMemory(cudaLogIterator* iterator, char* buffer, size_t* size,
                                            unsigned int flags) {
  return with_driver([&] { return driver.cuLogsDumpToMemory(iterator, buffer, size, flags); });
}
