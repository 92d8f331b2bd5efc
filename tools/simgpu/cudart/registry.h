// What nvcc's generated constructors register: fat binaries, kernels and variables by host address. Nothing
// is loaded before its first use (or at context creation when the driver says EAGER); one library handle
// serves all devices.
//
// Registration happens in constructors and dlopen, use on any thread. Records live until their module is
// unregistered and are then leaked: a late launch gets an error, not a crash.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "tools/simgpu/cudart/errors.h"

namespace simgpu::cudart {

struct Module;

struct Function {
  const void* host;
  const char* name;
  Module* module;
  std::atomic<CUkernel> kernel{nullptr};
  // The same host stub registered by another translation unit (an inline or template kernel); used when this
  // one's module goes away.
  Function* next = nullptr;
};

struct Variable {
  const void* host;
  const char* name;
  Module* module;
  size_t size;
  bool constant;
  void** managed_slot = nullptr;  // the pointer nvcc emits for a __managed__ variable
};

struct Module {
  const void* wrapper = nullptr;
  std::atomic<CUlibrary> library{nullptr};
  std::atomic<bool> gone{false};
  std::mutex load_lock;
  std::vector<Function*> functions;
  std::vector<Variable*> variables;
};

Module* register_module(const void* wrapper);
void register_function(Module* module, const void* host, const char* name);
void register_variable(Module* module, const void* host, const char* name, size_t size, bool constant,
                       void** managed_slot);
void unregister_module(Module* module);

// The kernel a host function or a cudaKernel_t stands for. Needs a started driver.
cudaError_t resolve_kernel(const void* function, CUkernel* kernel);
// The record of a registered host function; null for anything else.
Function* find_function(const void* function);
cudaError_t resolve_function(Function* function, CUkernel* kernel);
// The host function a kernel (or its CUfunction in the current context, which is what a captured launch
// leaves behind) was registered under, or the handle itself.
const void* host_function_of(const void* handle);

// Address and size of a __device__, __constant__ or __managed__ variable in the current context.
cudaError_t resolve_symbol(const void* symbol, CUdeviceptr* address, size_t* size);

// Loads the module's library if it is not, and fills in its managed variables.
cudaError_t load_module(Module* module);
// A primary context was made: load what has to be there eagerly and refresh managed variables.
void modules_on_new_context();
// Registered variables' addresses for fork.
void lock_registry();
void unlock_registry();

}  // namespace simgpu::cudart
