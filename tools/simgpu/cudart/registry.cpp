#include "tools/simgpu/cudart/registry.h"

#include <algorithm>
#include <cstring>

#include "tools/simgpu/cudart/pointer_map.h"
#include "tools/simgpu/cudart/state.h"

namespace simgpu::cudart {
namespace {

std::mutex lock;  // writers of the maps and the list of modules
PointerMap<Function> functions_by_host;
PointerMap<Function> functions_by_kernel;
PointerMap<Variable> variables_by_address;
// Kernels the application got from cudaLibraryGetKernel or the driver, once the driver vouched for them.
PointerMap<const void> foreign_kernels;
std::vector<Module*>* modules =
    nullptr;             // leaked; also created before any constructor of ours would have run
int eager_loading = -1;  // unknown until the driver was asked

bool load_eagerly() {
  if (eager_loading < 0) {
    CUmoduleLoadingMode mode{};
    eager_loading = driver.cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS && mode == CU_MODULE_EAGER_LOADING;
  }
  return eager_loading == 1;
}

cudaError_t refresh_managed(Module* module, CUlibrary library) {
  for (Variable* variable : module->variables) {
    if (variable->managed_slot == nullptr) continue;
    CUdeviceptr address = 0;
    size_t size = 0;
    const CUresult result = driver.cuLibraryGetManaged(&address, &size, library, variable->name);
    if (result != CUDA_SUCCESS) return not_found_as(result, cudaErrorInvalidSymbol);
    // The host names a managed variable by the address it points to, so that address is a symbol too.
    void* const host_address = reinterpret_cast<void*>(address);
    const std::lock_guard guard(lock);
    if (*variable->managed_slot != nullptr && *variable->managed_slot != host_address) {
      variables_by_address.set(*variable->managed_slot, nullptr);
    }
    *variable->managed_slot = host_address;
    variables_by_address.set(host_address, variable);
  }
  return cudaSuccess;
}

}  // namespace

Module* register_module(const void* wrapper) {
  auto* module = new Module;
  module->wrapper = wrapper;
  const std::lock_guard guard(lock);
  if (modules == nullptr) modules = new std::vector<Module*>;
  modules->push_back(module);
  return module;
}

void register_function(Module* module, const void* host, const char* name) {
  auto* function = new Function;
  function->host = host;
  function->name = name;
  function->module = module;
  const std::lock_guard guard(lock);
  module->functions.push_back(function);
  Function* first = functions_by_host.find(host);
  if (first == nullptr) {
    functions_by_host.set(host, function);
    return;
  }
  while (first->next != nullptr) first = first->next;
  first->next = function;
}

void register_variable(Module* module, const void* host, const char* name, size_t size, bool constant,
                       void** managed_slot) {
  auto* variable = new Variable{host, name, module, size, constant, managed_slot};
  const std::lock_guard guard(lock);
  module->variables.push_back(variable);
  variables_by_address.set(host, variable);
}

void unregister_module(Module* module) {
  if (module == nullptr) return;
  {
    const std::lock_guard guard(lock);
    if (modules == nullptr || std::find(modules->begin(), modules->end(), module) == modules->end()) return;
    std::erase(*modules, module);
    module->gone = true;
    for (Function* function : module->functions) {
      Function* first = functions_by_host.find(function->host);
      if (first == function) {
        functions_by_host.set(function->host, function->next);
      } else {
        while (first != nullptr && first->next != function) first = first->next;
        if (first != nullptr) first->next = function->next;
      }
      if (const CUkernel kernel = function->kernel.load(std::memory_order_relaxed); kernel != nullptr) {
        functions_by_kernel.set(kernel, nullptr);
      }
    }
    for (Variable* variable : module->variables) {
      if (variables_by_address.find(variable->host) == variable) {
        variables_by_address.set(variable->host, nullptr);
      }
      if (variable->managed_slot != nullptr && *variable->managed_slot != nullptr) {
        variables_by_address.set(*variable->managed_slot, nullptr);
      }
    }
  }
  const CUlibrary library = module->library.exchange(nullptr);
  // Not in a child of fork, nor without a driver: start() knows.
  if (library != nullptr && start() == cudaSuccess) driver.cuLibraryUnload(library);
}

cudaError_t load_module(Module* module) {
  if (module->library.load(std::memory_order_acquire) != nullptr) return cudaSuccess;
  const std::lock_guard guard(module->load_lock);
  if (module->library.load(std::memory_order_relaxed) != nullptr) return cudaSuccess;
  if (module->gone.load()) return cudaErrorInvalidDeviceFunction;
  CUlibrary library = nullptr;
  // The image is part of the loaded program: the driver need not copy it.
  CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
  void* value = reinterpret_cast<void*>(1);
  const CUresult result =
      driver.cuLibraryLoadData(&library, module->wrapper, nullptr, nullptr, 0, &option, &value, 1);
  if (result != CUDA_SUCCESS) return to_runtime(result);
  if (const cudaError_t error = refresh_managed(module, library); error != cudaSuccess) {
    driver.cuLibraryUnload(library);
    return error;
  }
  module->library.store(library, std::memory_order_release);
  return cudaSuccess;
}

Function* find_function(const void* function) { return functions_by_host.find(function); }

cudaError_t resolve_function(Function* function, CUkernel* kernel) {
  *kernel = function->kernel.load(std::memory_order_acquire);
  if (*kernel != nullptr) [[likely]]
    return cudaSuccess;
  Module* module = function->module;
  if (const cudaError_t error = load_module(module); error != cudaSuccess) return error;
  const CUresult result = driver.cuLibraryGetKernel(kernel, module->library.load(), function->name);
  if (result != CUDA_SUCCESS) return not_found_as(result, cudaErrorInvalidDeviceFunction);
  const std::lock_guard guard(lock);
  functions_by_kernel.set(*kernel, function);
  function->kernel.store(*kernel, std::memory_order_release);
  return cudaSuccess;
}

cudaError_t resolve_kernel(const void* function, CUkernel* kernel) {
  if (Function* known = functions_by_host.find(function); known != nullptr) [[likely]] {
    return resolve_function(known, kernel);
  }
  // Not a host function, so by the documentation a cudaKernel_t. The driver knows whether it is one.
  *kernel = static_cast<CUkernel>(const_cast<void*>(function));
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (functions_by_kernel.find(function) != nullptr || foreign_kernels.find(function) != nullptr) {
    return cudaSuccess;
  }
  CUlibrary library = nullptr;
  if (driver.cuKernelGetLibrary(&library, *kernel) != CUDA_SUCCESS) return cudaErrorInvalidDeviceFunction;
  const std::lock_guard guard(lock);
  foreign_kernels.set(function, function);
  return cudaSuccess;
}

const void* host_function_of(const void* handle) {
  if (const Function* function = functions_by_kernel.find(handle); function != nullptr) return function->host;
  // Perhaps a CUfunction: of the kernels of that name, the one whose function it is.
  const auto wanted = static_cast<CUfunction>(const_cast<void*>(handle));
  const char* name = nullptr;
  if (driver.cuFuncGetName(&name, wanted) != CUDA_SUCCESS || name == nullptr) return handle;
  std::vector<Function*> candidates;
  {
    const std::lock_guard guard(lock);
    for (Module* module : modules != nullptr ? *modules : std::vector<Module*>{}) {
      for (Function* function : module->functions) {
        if (function->kernel.load() != nullptr && std::strcmp(function->name, name) == 0) {
          candidates.push_back(function);
        }
      }
    }
  }
  for (Function* function : candidates) {
    CUfunction own = nullptr;
    if (driver.cuKernelGetFunction(&own, function->kernel.load()) == CUDA_SUCCESS && own == wanted) {
      return function->host;
    }
  }
  return handle;
}

cudaError_t resolve_symbol(const void* symbol, CUdeviceptr* address, size_t* size) {
  Variable* variable = symbol == nullptr ? nullptr : variables_by_address.find(symbol);
  if (variable == nullptr) return cudaErrorInvalidSymbol;
  if (const cudaError_t error = load_module(variable->module); error != cudaSuccess) return error;
  const CUlibrary library = variable->module->library.load();
  const CUresult result = variable->managed_slot != nullptr
                              ? driver.cuLibraryGetManaged(address, size, library, variable->name)
                              : driver.cuLibraryGetGlobal(address, size, library, variable->name);
  return not_found_as(result, cudaErrorInvalidSymbol);
}

void modules_on_new_context() {
  std::vector<Module*> all;
  {
    const std::lock_guard guard(lock);
    if (modules == nullptr) return;
    all = *modules;
  }
  const bool eager = load_eagerly();
  for (Module* module : all) {
    if (const CUlibrary library = module->library.load(); library != nullptr) {
      refresh_managed(module, library);
    } else if (eager) {
      load_module(module);  // a failure shows again, and with its code, at first use
    }
  }
}

void lock_registry() { lock.lock(); }
void unlock_registry() { lock.unlock(); }

}  // namespace simgpu::cudart
