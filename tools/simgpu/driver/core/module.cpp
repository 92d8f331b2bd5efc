#include "tools/simgpu/driver/core/module.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/binary/fatbin.h"
#include "tools/simgpu/driver/core/faults.h"
#include "tools/simgpu/driver/core/log.h"

namespace simgpu::driver {
namespace {
namespace binary = shunt::binary;
namespace ptx = shunt::ptx;

bool allow_newer_ptx() {
  static const bool allow = [] {
    const char* text = getenv("SIMGPU_PTX");
    return text && !strcmp(text, "newer");
  }();
  return allow;
}

void fill(char* buffer, size_t size, const std::string& text) {
  if (!buffer || !size) return;
  const size_t used = strnlen(buffer, size);
  const size_t at = used < size ? used : 0;
  snprintf(buffer + at, size - at, "%s", text.c_str());
}

// The highest PTX this toolkit generation knows. A newer one may mean things we would get wrong.
constexpr uint32_t kNewestPtx = 90;

struct Cache {
  std::map<std::vector<std::string>, std::weak_ptr<const Image>> images;
};
Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

std::string compute_name(uint32_t cc) { return std::to_string(cc / 10) + "." + std::to_string(cc % 10); }
}  // namespace

void JitLog::say_error(const std::string& text) const {
  fill(error, error_size, text);
  if (error_size_out) *error_size_out = reinterpret_cast<void*>(error ? strlen(error) : 0);
}
void JitLog::say_info(const std::string& text) const {
  fill(info, info_size, text);
  if (info_size_out) *info_size_out = reinterpret_cast<void*>(info ? strlen(info) : 0);
}

JitLog read_jit_options(unsigned count, const CUjit_option* options, void* const* values) {
  JitLog log;
  if (!options || !values) return log;
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        log.info = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        log.info_size = reinterpret_cast<uintptr_t>(values[i]) & 0xFFFFFFFFu;
        log.info_size_out = const_cast<void**>(&values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        log.error = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        log.error_size = reinterpret_cast<uintptr_t>(values[i]) & 0xFFFFFFFFu;
        log.error_size_out = const_cast<void**>(&values[i]);
        break;
      default:
        break;
    }
  }
  if (log.info && log.info_size) log.info[0] = 0;
  if (log.error && log.error_size) log.error[0] = 0;
  return log;
}

CUresult image_from_ptx(const std::vector<std::string>& texts, const Device& device, const JitLog& log,
                        ImageRef& out) {
  // The device matters only for what it refuses; the image itself is the same everywhere.
  auto place = cache().images.find(texts);
  ImageRef image = place == cache().images.end() ? nullptr : place->second.lock();
  if (!image) {
    auto made = std::make_shared<Image>();
    std::vector<const ptx::Module*> parts;
    for (const std::string& text : texts) {
      ptx::Diagnostic diagnostic;
      std::unique_ptr<ptx::Module> module = ptx::parse(text, diagnostic);
      if (!module) {
        const std::string message = "ptxas application ptx input, line " + std::to_string(diagnostic.line) +
                                    "; fatal   : " + diagnostic.message;
        log.say_error(message);
        log_once(LogLevel::warn, (diagnostic.message + std::to_string(diagnostic.line)).c_str(),
                 "PTX error, line %u: %s", diagnostic.line, diagnostic.message.c_str());
        return CUDA_ERROR_INVALID_PTX;
      }
      made->ptx_version = std::max(made->ptx_version, module->version_major * 10 + module->version_minor);
      if (module->target.size() > 3)
        made->target_cc = std::max(made->target_cc, uint32_t(atoi(module->target.c_str() + 3)));
      made->modules.push_back(std::move(module));
    }
    if (made->ptx_version > kNewestPtx) {
      const std::string message = "PTX version " + std::to_string(made->ptx_version / 10) + "." +
                                  std::to_string(made->ptx_version % 10) + " is newer than the driver's 9.0";
      log.say_error(message);
      log_once(LogLevel::warn, message.c_str(), "%s: it comes from a compiler newer than CUDA 13.0",
               message.c_str());
      return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    for (const auto& module : made->modules) {
      parts.push_back(module.get());
      for (const ptx::Function& function : module->functions) {
        if (function.is_entry && !function.is_declaration) made->exported.push_back(function.name);
      }
    }
    std::string error;
    made->program = exec::Program::build(parts, error);
    if (!made->program) {
      log.say_error(error);
      log_once(LogLevel::warn, error.c_str(), "PTX cannot be built: %s", error.c_str());
      return CUDA_ERROR_INVALID_PTX;
    }
    image = made;
    cache().images[texts] = image;
  }
  if (image->target_cc > uint32_t(device.cc()) && !allow_newer_ptx()) {
    const std::string message = "PTX for compute capability " + compute_name(image->target_cc) +
                                " cannot run on a device of " + compute_name(uint32_t(device.cc()));
    log.say_error(message);
    log_once(LogLevel::warn, message.c_str(), "%s (SIMGPU_PTX=newer allows it)", message.c_str());
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  out = std::move(image);
  return CUDA_SUCCESS;
}

namespace {
// The PTX of one member that this device would run; empty text when there is none.
CUresult pick_ptx(const std::vector<binary::Entry>& entries, const Device& device, std::string& text) {
  const binary::Choice choice = binary::choose(entries, uint32_t(device.cc()), allow_newer_ptx());
  if (choice.ptx < 0) {
    bool any_ptx = false;
    for (const auto& entry : entries) any_ptx |= entry.kind == binary::Entry::Kind::ptx;
    if (any_ptx) {
      log_once(LogLevel::error, "newer-ptx",
               "the program's PTX is newer than %s (compute capability %s): set SIMGPU_PTX=newer or compile "
               "with -gencode arch=compute_%d,code=compute_%d",
               std::string(device.profile->name).c_str(), compute_name(uint32_t(device.cc())).c_str(),
               device.cc(), device.cc());
    } else {
      log_once(LogLevel::error, "no-ptx",
               "the program carries machine code only, which simgpu cannot run: compile with -gencode "
               "arch=compute_%d,code=compute_%d (PTX)",
               device.cc(), device.cc());
    }
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  std::string error;
  if (!binary::extract(entries[size_t(choice.ptx)], text, error)) {
    log_line(LogLevel::error, "PTX in a fat binary cannot be read: %s", error.c_str());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return CUDA_SUCCESS;
}
}  // namespace

namespace {
constexpr char kLinkedMagic[16] = "simgpu-linked-1";
}  // namespace

std::string linked_image(const std::vector<std::string>& texts) {
  std::string bytes(kLinkedMagic, sizeof kLinkedMagic);
  auto put = [&](uint64_t value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(texts.size());
  for (const std::string& text : texts) {
    put(text.size());
    bytes += text;
  }
  return bytes;
}

CUresult ptx_of(const void* code, const Device& device, std::vector<std::string>& texts) {
  std::string error;
  if (!strncmp(static_cast<const char*>(code), kLinkedMagic, sizeof kLinkedMagic)) {
    const char* p = static_cast<const char*>(code) + sizeof kLinkedMagic;
    auto get = [&] {
      uint64_t value;
      memcpy(&value, p, sizeof value);
      p += sizeof value;
      return value;
    };
    for (uint64_t left = get(); left; --left) {
      const uint64_t size = get();
      texts.emplace_back(p, size);
      p += size;
    }
    return CUDA_SUCCESS;
  }
  switch (binary::classify(code)) {
    case binary::ImageKind::wrapper: {
      binary::Wrapper wrapper;
      if (!binary::read_wrapper(code, wrapper, error)) {
        log_line(LogLevel::error, "fat binary: %s", error.c_str());
        return CUDA_ERROR_INVALID_IMAGE;
      }
      // Of the members to link, nvcc appends the device runtime's archive to every relocatable program:
      // machine code, and PTX for the newest device only. Like any archive it matters only if something needs
      // it, so a member with nothing for this device is left out while another has something; what is then
      // missing, the linking names.
      const auto usable = [&](const std::vector<binary::Entry>& member) {
        return binary::choose(member, uint32_t(device.cc()), false).ptx >= 0;
      };
      const bool any_usable = std::any_of(wrapper.members.begin(), wrapper.members.end(), usable);
      for (const auto& member : wrapper.members) {
        if (member.empty()) continue;  // an empty translation unit
        if (any_usable && !usable(member)) continue;
        std::string text;
        const CUresult result = pick_ptx(member, device, text);
        if (result != CUDA_SUCCESS) return result;
        texts.push_back(std::move(text));
      }
      return texts.empty() ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS;
    }
    case binary::ImageKind::container: {
      std::vector<binary::Entry> entries;
      if (!binary::read_container(static_cast<const uint8_t*>(code), SIZE_MAX, entries, error)) {
        log_line(LogLevel::error, "fat binary: %s", error.c_str());
        return CUDA_ERROR_INVALID_IMAGE;
      }
      std::string text;
      const CUresult result = pick_ptx(entries, device, text);
      if (result != CUDA_SUCCESS) return result;
      texts.push_back(std::move(text));
      return CUDA_SUCCESS;
    }
    case binary::ImageKind::ptx_text:
      texts.emplace_back(static_cast<const char*>(code));
      return CUDA_SUCCESS;
    case binary::ImageKind::elf:
      log_once(LogLevel::error, "no-ptx",
               "a machine-code image (cubin) was loaded, which simgpu cannot run: load PTX instead");
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    default:
      return CUDA_ERROR_INVALID_IMAGE;
  }
}

CUresult load_image(const void* code, const Device& device, const JitLog& log, ImageRef& out) {
  if (!code) return CUDA_ERROR_INVALID_VALUE;
  const CUresult injected = fault_point("module_load", CUDA_ERROR_OUT_OF_MEMORY);
  if (injected != CUDA_SUCCESS) return injected;
  std::vector<std::string> texts;
  const CUresult result = ptx_of(code, device, texts);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) log.say_error("no PTX that this device can run");
  if (result != CUDA_SUCCESS) return result;
  return image_from_ptx(texts, device, log, out);
}

CUresult instantiate(const ImageRef& image, Context& context, std::shared_ptr<ModuleInstance>& out,
                     Library* library) {
  auto instance = std::make_shared<ModuleInstance>();
  instance->image = image;
  instance->context = shared(&context);
  const auto& globals = image->program->globals();
  DeviceHeap& heap = *context.device->heap;
  for (const exec::GlobalVariable& global : globals) {
    if (global.managed && library && library->managed.count(global.name)) {
      instance->allocations.push_back(nullptr);
      instance->global_addresses.push_back(library->managed[global.name]->base);
      continue;
    }
    auto allocation = std::make_shared<Allocation>();
    allocation->size = std::max<uint64_t>(1, global.size);
    allocation->device = context.device->ordinal;
    allocation->context_id = context.id;
    allocation->read_only = false;  // constants are written by the host; kernels have no store to them
    if (global.managed) {
      allocation->kind = MemoryKind::managed;
      allocation->flags = CU_MEM_ATTACH_GLOBAL;
      allocation->host = static_cast<uint8_t*>(map_host_memory(allocation->size));
      allocation->base = reinterpret_cast<uint64_t>(allocation->host);
    } else {
      allocation->kind = MemoryKind::global;
      allocation->base = heap.allocate(allocation->size, std::max<uint64_t>(global.align, 256));
      allocation->host = allocation->base ? heap.host(allocation->base) : nullptr;
    }
    if (!allocation->host) {
      release_instance(*instance);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(allocation->host, 0, allocation->size);
    if (!global.init.empty())
      memcpy(allocation->host, global.init.data(), std::min<size_t>(global.init.size(), allocation->size));
    if (global.managed && library) {
      allocation->context_id = 0;  // outlives the context
      library->managed[global.name] = allocation;
    }
    MemoryMap::get().insert(allocation);
    instance->allocations.push_back(allocation);
    instance->global_addresses.push_back(allocation->base);
  }
  for (size_t i = 0; i < globals.size(); ++i) {
    if (!instance->allocations[i]) continue;
    for (const exec::GlobalVariable::Reloc& reloc : globals[i].relocs) {
      uint64_t value = reloc.is_function ? image->program->function_address(reloc.function)
                                         : instance->global_addresses[reloc.global];
      value += uint64_t(reloc.addend);
      if (reloc.offset + reloc.bytes <= instance->allocations[i]->size)
        memcpy(instance->allocations[i]->host + reloc.offset, &value, reloc.bytes);
    }
  }
  out = std::move(instance);
  return CUDA_SUCCESS;
}

void release_instance(ModuleInstance& instance) {
  for (auto& [kernel, function] : instance.functions) drop_handle(*function);
  instance.functions.clear();
  for (const AllocationRef& allocation : instance.allocations) {
    if (!allocation || (allocation->kind == MemoryKind::managed && !allocation->context_id)) continue;
    if (!MemoryMap::get().erase(allocation->base)) continue;
    if (allocation->kind == MemoryKind::managed) {
      unmap_host_memory(allocation->host, allocation->size);
    } else if (Device* device = device_at(allocation->device)) {
      device->heap->release(allocation->base);
    }
  }
  instance.allocations.clear();
}

std::shared_ptr<Function> function_handle(const std::shared_ptr<ModuleInstance>& instance, int kernel) {
  std::shared_ptr<Function>& function = instance->functions[kernel];
  if (!function) {
    function = std::make_shared<Function>();
    function->module = instance;
    function->image = instance->image;
    function->kernel = kernel;
    make_handle(function);
  }
  return function;
}

ImageRef Library::image_for(const Device& device, CUresult& error) {
  ImageRef& image = images[device.ordinal];
  error = CUDA_SUCCESS;
  if (!image && failures.count(device.ordinal)) {
    error = failures[device.ordinal];
    return nullptr;
  }
  if (!image) error = load_image(code, device, {}, image);
  if (error == CUDA_ERROR_INVALID_PTX) failures[device.ordinal] = error;  // the text will not get better
  return image;
}

CUresult library_instance(Library& library, Context& context, std::shared_ptr<ModuleInstance>& out) {
  std::shared_ptr<ModuleInstance>& instance = library.instances[context.id];
  if (!instance) {
    CUresult error;
    const ImageRef image = library.image_for(*context.device, error);
    if (!image) {
      library.instances.erase(context.id);
      return error;
    }
    error = instantiate(image, context, instance, &library);
    if (error != CUDA_SUCCESS) {
      library.instances.erase(context.id);
      return error;
    }
    instance->of_library = true;
    context.modules[&library] = instance;  // released with the context
  }
  out = instance;
  return CUDA_SUCCESS;
}

CUresult resolve_function(CUfunction handle, Context& context, KernelRef& out) {
  if (Function* function = lookup<Function>(handle)) {
    out.instance = function->module.lock();
    if (!out.instance) return CUDA_ERROR_INVALID_HANDLE;
    out.image = function->image;
    out.kernel = function->kernel;
    out.settings = &function->settings;
    auto owner = out.instance->context.lock();
    return owner && !owner->destroyed ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  Kernel* kernel = lookup<Kernel>(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  auto library = kernel->library.lock();
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = library_instance(*library, context, out.instance);
  if (result != CUDA_SUCCESS) return result;
  out.image = out.instance->image;
  out.kernel = out.image->program->find_kernel(kernel->name);
  if (out.kernel < 0) return CUDA_ERROR_NOT_FOUND;
  out.settings = &kernel->settings[context.device->ordinal];
  return CUDA_SUCCESS;
}
}  // namespace simgpu::driver
