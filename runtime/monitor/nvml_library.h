// The NVML library as a table of functions, each null when the library lacks it. The loader may be replaced:
// in a preloaded process look-ups have to bypass shunt's own dlsym hook, and tests leave symbols out.
// Immutable once open; any thread; never closed (its threads and atexit handlers may still run).
#pragma once
#include <string>

#include "runtime/monitor/nvml_abi.h"

namespace shunt::monitor::nvml {

struct Functions {
#define NVML_FUNCTION(name, parameters) Return(*name) parameters = nullptr;
#include "runtime/monitor/nvml_functions.def"
#undef NVML_FUNCTION
};

struct Loader {
  void* (*open)(const char* file) = nullptr;
  void* (*symbol)(void* library, const char* name) = nullptr;
};
Loader system_loader();  // dlopen(RTLD_LOCAL), dlsym

// False and one line when there is no library. Does not initialise NVML.
bool load(const Loader& loader, Functions& out, std::string& error);

}  // namespace shunt::monitor::nvml
