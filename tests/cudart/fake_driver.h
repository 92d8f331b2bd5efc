// The test's side of fake_driver.cpp, and a module registered as nvcc's code would.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <string>

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int limit,
                            uint3*, uint3*, dim3*, dim3*, int*);
void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int ext, size_t size,
                       int constant, int global);
void __cudaRegisterManagedVar(void** handle, void** host, char* device, const char* name, int ext,
                              size_t size, int constant, int global);
char __cudaInitModule(void** handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                    cudaStream_t stream);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
cudaError_t cudaMemcpy_ptds(void* destination, const void* source, size_t count, cudaMemcpyKind kind);
cudaError_t cudaGLGetDevices();
}

namespace simgpu::cudart::testing {

// Null until the runtime opened the driver.
inline void* fake(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, name);
}
inline std::string driver_log() {
  const auto log = reinterpret_cast<const char* (*)()>(fake("fake_log"));
  return log == nullptr ? "" : log();
}
// The last line of the log, without its newline.
inline std::string last_call() {
  std::string log = driver_log();
  if (!log.empty()) log.pop_back();
  return log.substr(log.rfind('\n') + 1);
}
inline void fail(const char* name, int code) {
  reinterpret_cast<void (*)(const char*, int)>(fake("fake_fail"))(name, code);
}
inline int times(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The wrapper's content is the fake driver's own business: it logs the first word.
struct Registered {
  unsigned wrapper[6] = {77};
  char kernel_host = 0, absent_host = 0, variable_host = 0;
  void* managed_host = nullptr;
  void** handle = nullptr;
  Registered() {
    handle = __cudaRegisterFatBinary(wrapper);
    __cudaRegisterFunction(handle, &kernel_host, nullptr, "kernel", -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    __cudaRegisterFunction(handle, &absent_host, nullptr, "absent", -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    __cudaRegisterVar(handle, &variable_host, nullptr, "variable", 0, 64, 0, 0);
    __cudaRegisterManagedVar(handle, &managed_host, nullptr, "managed", 0, 16, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
  }
};

}  // namespace simgpu::cudart::testing
