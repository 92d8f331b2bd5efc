// Modules, libraries, kernels and the linker.
#include <cstdio>
#include <cstring>
#include <fstream>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/module.h"

using namespace simgpu::driver;

namespace {
CUresult read_file(const char* path, std::string& bytes) {
  std::ifstream file(path, std::ios::binary);
  SIMGPU_REQUIRE(file, CUDA_ERROR_FILE_NOT_FOUND);
  bytes.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  bytes.append(16, '\0');  // PTX text needs its end; headers are read whole
  return CUDA_SUCCESS;
}

CUresult load_module(CUmodule* module, const void* image, unsigned count, const CUjit_option* options,
                     void* const* values) {
  SIMGPU_REQUIRE(module && image, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!count || (options && values), CUDA_ERROR_INVALID_VALUE);
  Context* context;
  SIMGPU_TRY(require_context(context));
  SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context));
  ImageRef loaded;
  SIMGPU_TRY(load_image(image, *context->device, read_jit_options(count, options, values), loaded));
  std::shared_ptr<ModuleInstance> instance;
  SIMGPU_TRY(instantiate(loaded, *context, instance));
  make_handle(instance);
  context->owned_modules.insert(instance);
  *module = handle_of<CUmodule>(*instance);
  return CUDA_SUCCESS;
}

CUresult find_module(CUmodule handle, ModuleInstance*& out) {
  out = lookup<ModuleInstance>(handle);
  return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// A .global or .const variable that the program may name.
CUresult find_global(const ModuleInstance& instance, const char* name, bool managed_only, CUdeviceptr* dptr,
                     size_t* bytes) {
  const auto& globals = instance.image->program->globals();
  for (size_t i = 0; i < globals.size(); ++i) {
    if (globals[i].name != name || (managed_only && !globals[i].managed)) continue;
    if (dptr) *dptr = instance.global_addresses[i];
    if (bytes) *bytes = globals[i].size;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
}  // namespace

SIMGPU_API cuModuleLoad(CUmodule* module, const char* fname) {
  return api_call("cuModuleLoad", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(module && fname, CUDA_ERROR_INVALID_VALUE);
    std::string bytes;
    SIMGPU_TRY(read_file(fname, bytes));
    return load_module(module, bytes.data(), 0, nullptr, nullptr);
  });
}
SIMGPU_API cuModuleLoadData(CUmodule* module, const void* image) {
  return api_call("cuModuleLoadData", kNeedsInit,
                  [&](Lock&) -> CUresult { return load_module(module, image, 0, nullptr, nullptr); });
}
SIMGPU_API cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                              CUjit_option* options, void** optionValues) {
  return api_call("cuModuleLoadDataEx", kNeedsInit, [&](Lock&) -> CUresult {
    return load_module(module, image, numOptions, options, optionValues);
  });
}
SIMGPU_API cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return api_call("cuModuleLoadFatBinary", kNeedsInit,
                  [&](Lock&) -> CUresult { return load_module(module, fatCubin, 0, nullptr, nullptr); });
}

SIMGPU_API cuModuleUnload(CUmodule hmod) {
  return api_call("cuModuleUnload", kNeedsInit, [&](Lock& lock) -> CUresult {
    ModuleInstance* module;
    SIMGPU_TRY(find_module(hmod, module));
    SIMGPU_REQUIRE(!module->of_library, CUDA_ERROR_INVALID_HANDLE);
    auto keep = shared(module);
    auto context = module->context.lock();
    SIMGPU_REQUIRE(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, context.get()));
    const CUresult waited = wait_for(lock, *context, context_targets(*context));
    release_instance(*module);
    context->owned_modules.erase(keep);
    drop_handle(*module);
    return waited;
  });
}

SIMGPU_API cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return api_call("cuModuleGetLoadingMode", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(mode, CUDA_ERROR_INVALID_VALUE);
    const char* text = getenv("CUDA_MODULE_LOADING");
    *mode = text && !strcmp(text, "EAGER") ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  return api_call("cuModuleGetFunction", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(hfunc && name && *name, CUDA_ERROR_INVALID_VALUE);
    ModuleInstance* module;
    SIMGPU_TRY(find_module(hmod, module));
    const int kernel = module->image->program->find_kernel(name);
    SIMGPU_REQUIRE(kernel >= 0, CUDA_ERROR_NOT_FOUND);
    *hfunc = handle_of<CUfunction>(*function_handle(shared(module), kernel));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  return api_call("cuModuleGetFunctionCount", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    ModuleInstance* module;
    SIMGPU_TRY(find_module(mod, module));
    *count = unsigned(module->image->exported.size());
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
  return api_call("cuModuleEnumerateFunctions", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(functions && numFunctions, CUDA_ERROR_INVALID_VALUE);
    ModuleInstance* module;
    SIMGPU_TRY(find_module(mod, module));
    for (unsigned i = 0; i < numFunctions && i < module->image->exported.size(); ++i) {
      functions[i] = handle_of<CUfunction>(
          *function_handle(shared(module), module->image->program->find_kernel(module->image->exported[i])));
    }
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  return api_call("cuModuleGetGlobal", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(name && (dptr || bytes), CUDA_ERROR_INVALID_VALUE);
    ModuleInstance* module;
    SIMGPU_TRY(find_module(hmod, module));
    return find_global(*module, name, false, dptr, bytes);
  });
}

// --- libraries ---

namespace {
CUresult load_library(CUlibrary* out, std::shared_ptr<std::string> owned, const void* code, const JitLog& log,
                      bool preserved) {
  auto library = std::make_shared<Library>();
  library->source = owned;
  library->code = owned ? owned->data() : code;
  // One library serves all devices; it must suit at least one of them. Without a promise that the code stays,
  // all are read now.
  CUresult first = CUDA_ERROR_NO_BINARY_FOR_GPU;
  bool any = false, asked = false;
  Context* current = current_context();
  std::vector<Device*> order = platform()->devices;
  for (size_t i = 0; current && i < order.size(); ++i) {
    if (order[i] == current->device) std::swap(order[0], order[i]);
  }
  for (Device* device : order) {
    ImageRef image;
    const CUresult result = load_image(library->code, *device, log, image);
    if (!asked) first = result;
    asked = true;
    if (result == CUDA_SUCCESS) {
      any = true;
      library->images[device->ordinal] = image;
      if (preserved || owned) break;  // the rest is read when asked for
    } else if (result != CUDA_ERROR_NO_BINARY_FOR_GPU) {
      return result;
    }
  }
  SIMGPU_REQUIRE(any, first);
  make_handle(library);
  *out = handle_of<CUlibrary>(*library);
  return CUDA_SUCCESS;
}

CUresult find_library(CUlibrary handle, Library*& out) {
  out = lookup<Library>(handle);
  return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

std::shared_ptr<Kernel> kernel_handle(Library& library, const std::string& name) {
  std::shared_ptr<Kernel>& kernel = library.kernels[name];
  if (!kernel) {
    kernel = std::make_shared<Kernel>();
    kernel->library = std::static_pointer_cast<Library>(library.shared_from_this());
    kernel->name = name;
    make_handle(kernel);
  }
  return kernel;
}

// Any image will do for names: those of one library agree on them.
const Image* any_image(Library& library) {
  for (auto& [ordinal, image] : library.images) {
    if (image) return image.get();
  }
  return nullptr;
}

bool binary_preserved(unsigned count, CUlibraryOption* options, void** values) {
  for (unsigned i = 0; options && i < count; ++i) {
    if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) return true;
  }
  (void)values;
  return false;
}
}  // namespace

SIMGPU_API cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                             void** jitOptionsValues, unsigned int numJitOptions,
                             CUlibraryOption* libraryOptions, void** libraryOptionValues,
                             unsigned int numLibraryOptions) {
  return api_call("cuLibraryLoadData", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(library && code, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(
        (!numJitOptions || (jitOptions && jitOptionsValues)) && (!numLibraryOptions || libraryOptions),
        CUDA_ERROR_INVALID_VALUE);
    return load_library(library, nullptr, code, read_jit_options(numJitOptions, jitOptions, jitOptionsValues),
                        binary_preserved(numLibraryOptions, libraryOptions, libraryOptionValues));
  });
}
SIMGPU_API cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                 void** jitOptionsValues, unsigned int numJitOptions,
                                 CUlibraryOption* libraryOptions, void**, unsigned int numLibraryOptions) {
  return api_call("cuLibraryLoadFromFile", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(library && fileName, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(
        (!numJitOptions || (jitOptions && jitOptionsValues)) && (!numLibraryOptions || libraryOptions),
        CUDA_ERROR_INVALID_VALUE);
    auto bytes = std::make_shared<std::string>();
    SIMGPU_TRY(read_file(fileName, *bytes));
    return load_library(library, bytes, nullptr,
                        read_jit_options(numJitOptions, jitOptions, jitOptionsValues), true);
  });
}
SIMGPU_API cuLibraryUnload(CUlibrary handle) {
  return api_call("cuLibraryUnload", kNeedsInit, [&](Lock& lock) -> CUresult {
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    auto keep = shared(library);
    for (auto& [context_id, instance] : library->instances) {
      auto context = instance->context.lock();
      if (!context || context->destroyed) continue;
      if (context->sticky.load() == CUDA_SUCCESS) wait_for(lock, *context, context_targets(*context));
      release_instance(*instance);
      context->modules.erase(library);
    }
    library->instances.clear();
    for (auto& [name, kernel] : library->kernels) drop_handle(*kernel);
    library->kernels.clear();
    for (auto& [name, allocation] : library->managed) {
      if (MemoryMap::get().erase(allocation->base)) unmap_host_memory(allocation->host, allocation->size);
    }
    drop_handle(*library);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuLibraryGetKernel(CUkernel* pKernel, CUlibrary handle, const char* name) {
  return api_call("cuLibraryGetKernel", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pKernel && name && *name, CUDA_ERROR_INVALID_VALUE);
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    const Image* image = any_image(*library);
    SIMGPU_REQUIRE(image && image->program->find_kernel(name) >= 0, CUDA_ERROR_NOT_FOUND);
    *pKernel = handle_of<CUkernel>(*kernel_handle(*library, name));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  return api_call("cuLibraryGetKernelCount", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    const Image* image = any_image(*library);
    *count = image ? unsigned(image->exported.size()) : 0;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary handle) {
  return api_call("cuLibraryEnumerateKernels", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(kernels && numKernels, CUDA_ERROR_INVALID_VALUE);
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    const Image* image = any_image(*library);
    for (unsigned i = 0; image && i < numKernels && i < image->exported.size(); ++i)
      kernels[i] = handle_of<CUkernel>(*kernel_handle(*library, image->exported[i]));
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuLibraryGetModule(CUmodule* pMod, CUlibrary handle) {
  return api_call("cuLibraryGetModule", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pMod, CUDA_ERROR_INVALID_VALUE);
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    Context* context;
    SIMGPU_TRY(require_context(context));
    std::shared_ptr<ModuleInstance> instance;
    SIMGPU_TRY(library_instance(*library, *context, instance));
    if (!instance->handle) make_handle(instance);
    *pMod = handle_of<CUmodule>(*instance);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary handle, const char* name) {
  return api_call("cuLibraryGetGlobal", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(name && (dptr || bytes), CUDA_ERROR_INVALID_VALUE);
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    Context* context;
    SIMGPU_TRY(require_context(context));
    std::shared_ptr<ModuleInstance> instance;
    SIMGPU_TRY(library_instance(*library, *context, instance));
    return find_global(*instance, name, false, dptr, bytes);
  });
}
SIMGPU_API cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary handle, const char* name) {
  return api_call("cuLibraryGetManaged", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(name && (dptr || bytes), CUDA_ERROR_INVALID_VALUE);
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    Context* context;
    SIMGPU_TRY(require_context(context));
    std::shared_ptr<ModuleInstance> instance;
    SIMGPU_TRY(library_instance(*library, *context, instance));
    return find_global(*instance, name, true, dptr, bytes);
  });
}
// Device function pointers that are the same on all devices; PTX from nvcc declares none by itself.
SIMGPU_API cuLibraryGetUnifiedFunction(void** fptr, CUlibrary handle, const char* symbol) {
  return api_call("cuLibraryGetUnifiedFunction", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(fptr && symbol, CUDA_ERROR_INVALID_VALUE);
    Library* library;
    SIMGPU_TRY(find_library(handle, library));
    return CUDA_ERROR_NOT_FOUND;
  });
}

SIMGPU_API cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  return api_call("cuKernelGetLibrary", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pLib, CUDA_ERROR_INVALID_VALUE);
    Kernel* k = lookup<Kernel>(kernel);
    SIMGPU_REQUIRE(k, CUDA_ERROR_INVALID_HANDLE);
    auto library = k->library.lock();
    SIMGPU_REQUIRE(library, CUDA_ERROR_INVALID_HANDLE);
    *pLib = handle_of<CUlibrary>(*library);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  return api_call("cuKernelGetFunction", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pFunc, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(lookup<Kernel>(kernel), CUDA_ERROR_INVALID_HANDLE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    KernelRef ref;
    SIMGPU_TRY(resolve_function(reinterpret_cast<CUfunction>(kernel), *context, ref));
    *pFunc = handle_of<CUfunction>(*function_handle(ref.instance, ref.kernel));
    return CUDA_SUCCESS;
  });
}

// --- linker ---

namespace {
struct LinkState : Object {
  static constexpr Kind kKind = Kind::link;
  LinkState() : Object(Kind::link) {}
  Device* device = nullptr;
  JitLog log;
  std::vector<std::string> texts;
  std::string result;
};
CUresult add_input(LinkState& link, CUjitInputType type, const void* data, size_t size) {
  switch (type) {
    case CU_JIT_INPUT_PTX: {
      // With or without the final NUL, as the caller counts.
      link.texts.emplace_back(static_cast<const char*>(data), strnlen(static_cast<const char*>(data), size));
      return CUDA_SUCCESS;
    }
    case CU_JIT_INPUT_FATBINARY:
      return ptx_of(data, *link.device, link.texts);
    case CU_JIT_INPUT_CUBIN:
    case CU_JIT_INPUT_OBJECT:
    case CU_JIT_INPUT_LIBRARY:
      link.log.say_error("simgpu links PTX only");
      log_once(
          LogLevel::error, "link-input",
          "cuLinkAddData: simgpu links PTX and fat binaries with PTX, not machine code, objects or archives");
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
}  // namespace

SIMGPU_API cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues,
                           CUlinkState* stateOut) {
  return api_call("cuLinkCreate", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(stateOut && (!numOptions || (options && optionValues)), CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    auto link = std::make_shared<LinkState>();
    link->device = context->device;
    link->log = read_jit_options(numOptions, options, optionValues);
    make_handle(link);
    *stateOut = handle_of<CUlinkState>(*link);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuLinkCreate(unsigned int numOptions, CUjit_option* options, void** optionValues,
                        CUlinkState* stateOut) {
  return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

SIMGPU_API cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                            unsigned int numOptions, CUjit_option* options, void** optionValues) {
  return api_call("cuLinkAddData", kNeedsInit, [&](Lock&) -> CUresult {
    LinkState* link = lookup<LinkState>(state);
    SIMGPU_REQUIRE(link, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_REQUIRE(data && size && (!numOptions || (options && optionValues)), CUDA_ERROR_INVALID_VALUE);
    return add_input(*link, type, data, size);
  });
}
SIMGPU_API cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                         unsigned int numOptions, CUjit_option* options, void** optionValues) {
  return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}
SIMGPU_API cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                            CUjit_option* options, void** optionValues) {
  return api_call("cuLinkAddFile", kNeedsInit, [&](Lock&) -> CUresult {
    LinkState* link = lookup<LinkState>(state);
    SIMGPU_REQUIRE(link, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_REQUIRE(path && (!numOptions || (options && optionValues)), CUDA_ERROR_INVALID_VALUE);
    std::string bytes;
    SIMGPU_TRY(read_file(path, bytes));
    return add_input(*link, type, bytes.data(), bytes.size());
  });
}
SIMGPU_API cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                         CUjit_option* options, void** optionValues) {
  return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}
SIMGPU_API cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
  return api_call("cuLinkComplete", kNeedsInit, [&](Lock&) -> CUresult {
    LinkState* link = lookup<LinkState>(state);
    SIMGPU_REQUIRE(link, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_REQUIRE(cubinOut, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!link->texts.empty(), CUDA_ERROR_INVALID_IMAGE);
    ImageRef image;  // errors belong to this call, so the link is really made
    SIMGPU_TRY(image_from_ptx(link->texts, *link->device, link->log, image));
    link->result = linked_image(link->texts);
    *cubinOut = link->result.data();
    if (sizeOut) *sizeOut = link->result.size();
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuLinkDestroy(CUlinkState state) {
  return api_call("cuLinkDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    LinkState* link = lookup<LinkState>(state);
    SIMGPU_REQUIRE(link, CUDA_ERROR_INVALID_HANDLE);
    drop_handle(*link);
    return CUDA_SUCCESS;
  });
}
