#include "tools/shunt/layout.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

namespace shunt::tool {
namespace {

std::string executable_folder() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) return ".";
  std::string text(path, static_cast<size_t>(n));
  return text.substr(0, text.rfind('/'));
}

std::string absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) ? resolved : path;
}

}  // namespace

Layout find_layout() {
  Layout layout;
  const std::string bin = executable_folder();
  for (const std::string& folder :
       std::vector<std::string>{bin + "/../lib", bin + "/../lib/shunt", bin + "/../lib/x86_64-linux-gnu",
                                bin + "/../lib/x86_64-linux-gnu/shunt", bin}) {
    auto take = [&](std::string& slot, const std::string& name) {
      if (slot.empty() && access((folder + "/" + name).c_str(), R_OK) == 0)
        slot = absolute(folder + "/" + name);
    };
    take(layout.interposer, "libshunt.so");
    take(layout.runtime, "libshunt_rt.so");
    if (layout.simgpu.empty() && access((folder + "/simgpu/libcuda.so.1").c_str(), R_OK) == 0)
      layout.simgpu = absolute(folder + "/simgpu");
  }
  layout.looked_in = absolute(bin + "/../lib");
  return layout;
}

std::vector<std::string> simgpu_libraries(const std::string& folder) {
  std::vector<std::string> out;
  // libcupti stays out: a profiler's library belongs to whoever loads it.
  for (const char* name : {"libcuda.so.1", "libcudart.so.13", "libnvidia-ml.so.1", "libnccl.so.2"})
    if (access((folder + "/" + name).c_str(), R_OK) == 0) out.push_back(folder + "/" + name);
  return out;
}

}  // namespace shunt::tool
