#include "runtime/trace/cupti_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <vector>

namespace shunt::trace::gpu {
namespace {

// The first release whose kernel records begin as those of this header.
constexpr uint32_t kOldest = 20;  // CUDA 12.2
static_assert(offsetof(CUpti_ActivityKernel9, graphId) == offsetof(CUpti_ActivityKernel10, graphId));
static_assert(offsetof(CUpti_ActivityKernel9, name) == offsetof(CUpti_ActivityKernel10, name));
static_assert(offsetof(CUpti_ActivityMemcpy5, graphId) == offsetof(CUpti_ActivityMemcpy6, graphId));

void* open_library(std::string& path) {
  std::vector<std::string> names{"libcupti.so.13", "libcupti.so.12"};
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD))
      return path = name, library;
  names.push_back("libcupti.so");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = getenv(variable); root && *root)
      names.push_back(std::string(root) + "/extras/CUPTI/lib64/libcupti.so");
  names.push_back("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so");
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return path = name, library;
  return nullptr;
}

}  // namespace

const Cupti* open_cupti(std::string& problem) {
  auto* cupti = new Cupti();  // leaked with the library: its threads may call back until the process is gone
  void* library = open_library(cupti->path);
  if (!library) {
    problem = "libcupti.so.13 was not found; add its folder to LD_LIBRARY_PATH or set CUDA_HOME";
    return nullptr;
  }
#define SHUNT_CUPTI(name)                                                       \
  cupti->name = reinterpret_cast<decltype(cupti->name)>(dlsym(library, #name)); \
  if (!cupti->name) {                                                           \
    problem = cupti->path + " has no " #name;                                   \
    return nullptr;                                                             \
  }
#include "runtime/trace/cupti_library.def"
#undef SHUNT_CUPTI
  cupti->subscribe_v2 = reinterpret_cast<decltype(cupti->subscribe_v2)>(dlsym(library, "cuptiSubscribe_v2"));
  if (cupti->cuptiGetVersion(&cupti->version) != CUPTI_SUCCESS || cupti->version < kOldest) {
    problem = cupti->path + " is older than CUDA 12.2";
    return nullptr;
  }
  return cupti;
}

}  // namespace shunt::trace::gpu
