// Program images, their instances per context, and the handles programs get for them. An Image is what one
// fat binary or PTX text became (parsed, built, immutable, cached by content); a ModuleInstance is its
// globals in one context. Kernels are named by (image, index): a CUfunction is bound to an instance, a
// CUkernel to a library and finds the instance of the context it is used in. Engine mutex.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/exec/exec.h"

namespace simgpu::driver {

struct Image {
  std::vector<std::unique_ptr<shunt::ptx::Module>> modules;
  std::unique_ptr<exec::Program> program;
  uint32_t target_cc = 0;             // 90 for sm_90
  uint32_t ptx_version = 0;           // 90 for 9.0
  std::vector<std::string> exported;  // names of visible kernels, declaration order
};
using ImageRef = std::shared_ptr<const Image>;

// Per-kernel attributes that programs may set, per context (functions) or per device (kernels).
struct KernelSettings {
  int max_dynamic_shared = -1;  // -1: what 48 KiB leave beside the static part; grows by opt-in
  int dynamic_limit(const exec::KernelInfo& info) const {
    return max_dynamic_shared >= 0      ? max_dynamic_shared
           : info.static_shared < 49152 ? 49152 - int(info.static_shared)
                                        : 0;
  }
  int preferred_carveout = -1;
  int cluster_size[3] = {0, 0, 0};
  int non_portable_cluster = 0;
  int cluster_scheduling = 0;
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
};

struct Function;
struct ModuleInstance : Object {
  static constexpr Kind kKind = Kind::module;
  ModuleInstance() : Object(Kind::module) {}
  ImageRef image;
  std::weak_ptr<Context> context;
  std::vector<uint64_t> global_addresses;  // parallel to program->globals()
  std::vector<AllocationRef> allocations;
  std::map<int, std::shared_ptr<Function>> functions;  // handles given out
  bool of_library = false;
  std::vector<std::shared_ptr<void>> extras;  // texture references and the like
};

struct Function : Object {  // CUfunction
  static constexpr Kind kKind = Kind::function;
  Function() : Object(Kind::function) {}
  std::weak_ptr<ModuleInstance> module;
  ImageRef image;
  int kernel = -1;
  KernelSettings settings;
};

struct Kernel;
struct Library : Object {
  static constexpr Kind kKind = Kind::library;
  Library() : Object(Kind::library) {}
  ImageRef image_for(const Device& device, CUresult& error);      // chosen per device, cached
  std::map<int, ImageRef> images;                                 // by ordinal
  std::map<int, CUresult> failures;                               // by ordinal: not tried again
  std::map<uint64_t, std::shared_ptr<ModuleInstance>> instances;  // by context id
  std::map<std::string, std::shared_ptr<Kernel>> kernels;
  std::shared_ptr<void> source;  // copy of the code, or the caller's pointer kept
  const void* code = nullptr;
  std::map<std::string, AllocationRef> managed;  // one per variable for all contexts
};
struct Kernel : Object {  // CUkernel
  static constexpr Kind kKind = Kind::kernel;
  Kernel() : Object(Kind::kernel) {}
  std::weak_ptr<Library> library;
  std::string name;
  std::map<int, KernelSettings> settings;  // by ordinal
};

// Options of cuModuleLoadDataEx, cuLinkCreate, cuLibraryLoadData that have an effect here.
struct JitLog {
  char* info = nullptr;
  size_t info_size = 0;
  char* error = nullptr;
  size_t error_size = 0;
  void** error_size_out = nullptr;
  void** info_size_out = nullptr;
  void say_error(const std::string& text) const;
  void say_info(const std::string& text) const;
};
JitLog read_jit_options(unsigned count, const CUjit_option* options, void* const* values);

// Image from a wrapper, container, ELF or PTX text, for a device.
CUresult load_image(const void* code, const Device& device, const JitLog& log, ImageRef& out);
// Several PTX texts linked by cuLinkComplete, as bytes that load_image() takes.
std::string linked_image(const std::vector<std::string>& texts);
// The PTX texts of an image that suit a device (linker inputs).
CUresult ptx_of(const void* code, const Device& device, std::vector<std::string>& texts);
CUresult image_from_ptx(const std::vector<std::string>& texts, const Device& device, const JitLog& log,
                        ImageRef& out);
// Globals allocated and initialised in the context.
CUresult instantiate(const ImageRef& image, Context& context, std::shared_ptr<ModuleInstance>& out,
                     Library* library = nullptr);
void release_instance(ModuleInstance& instance);
CUresult library_instance(Library& library, Context& context, std::shared_ptr<ModuleInstance>& out);
// CUfunction or CUkernel (either may be passed wherever a function is taken), for launches in `context`.
struct KernelRef {
  std::shared_ptr<ModuleInstance> instance;
  ImageRef image;
  int kernel = -1;
  KernelSettings* settings = nullptr;
  const exec::KernelInfo& info() const { return image->program->kernels()[size_t(kernel)]; }
};
CUresult resolve_function(CUfunction handle, Context& context, KernelRef& out);
std::shared_ptr<Function> function_handle(const std::shared_ptr<ModuleInstance>& instance, int kernel);

}  // namespace simgpu::driver
