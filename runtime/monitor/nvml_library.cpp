#include "runtime/monitor/nvml_library.h"

#include <dlfcn.h>

namespace shunt::monitor::nvml {

Loader system_loader() {
  return {[](const char* file) { return dlopen(file, RTLD_NOW | RTLD_LOCAL); },
          [](void* library, const char* name) { return dlsym(library, name); }};
}

bool load(const Loader& loader, Functions& out, std::string& error) {
  void* library = loader.open("libnvidia-ml.so.1");
  if (!library) {
    error = "libnvidia-ml.so.1 was not found: install the NVIDIA driver, or use --sim";
    return false;
  }
#define NVML_FUNCTION(name, parameters) \
  out.name = reinterpret_cast<Return(*) parameters>(loader.symbol(library, #name));
#include "runtime/monitor/nvml_functions.def"
#undef NVML_FUNCTION
  if (!out.nvmlInit_v2 || !out.nvmlDeviceGetCount_v2 || !out.nvmlDeviceGetHandleByIndex_v2 ||
      !out.nvmlDeviceGetUUID) {
    error = "libnvidia-ml.so.1 lacks the calls that list devices: it is older than any supported driver";
    return false;
  }
  return true;
}

}  // namespace shunt::monitor::nvml
