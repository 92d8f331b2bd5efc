#include "tools/simgpu/cudart/watch.h"

#include <dlfcn.h>

namespace simgpu::cudart {

namespace detail {
namespace {
void nobody_enters(const char*) {}
void nobody_exits(const char*, int) {}
}  // namespace
std::atomic<void (*)(const char*)> runtime_enter{nullptr};
std::atomic<void (*)(const char*, int)> runtime_exit{nullptr};
}  // namespace detail

// Two threads may come here at once: they find the same.
void find_watch() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) return;
  const auto enter = reinterpret_cast<void (*)(const char*)>(dlsym(library, "simgpu_runtime_enter"));
  const auto exit = reinterpret_cast<void (*)(const char*, int)>(dlsym(library, "simgpu_runtime_exit"));
  detail::runtime_exit.store(enter && exit ? exit : detail::nobody_exits);
  detail::runtime_enter.store(enter && exit ? enter : detail::nobody_enters);
  dlclose(library);  // the driver stays: nobody unloads it
}

}  // namespace simgpu::cudart
