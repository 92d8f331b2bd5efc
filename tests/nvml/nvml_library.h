// Opens simgpu's NVML as a monitor does (dlopen, dlsym) on a named box that the test sees too.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "tools/simgpu/box/box.h"
#include "tools/simgpu/nvml/nvml_types.h"

namespace nvml_test {

using namespace simgpu::nvml;

// The library keeps its box for the life of the process, so each box gets its own copy of the library's file.
class Library {
 public:
  explicit Library(const char* sim, const std::string& links = "nvlink5") {
    simgpu::BoxSpec spec;
    std::string error;
    EXPECT_TRUE(simgpu::parse_box_spec(sim, links, spec, error)) << error;
    EXPECT_TRUE(simgpu::Box::create_named(spec, name_, error)) << error;
    box.reset(simgpu::Box::open_named(name_, error));
    EXPECT_TRUE(box) << error;
    setenv("SIMGPU_BOX", name_.c_str(), 1);
    static int copies = 0;
    path_ = "/tmp/simgpu-nvml-test-" + std::to_string(getpid()) + "-" + std::to_string(copies++) + ".so";
    std::ofstream(path_, std::ios::binary) << std::ifstream(SIMGPU_NVML_PATH, std::ios::binary).rdbuf();
    handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) ADD_FAILURE() << dlerror();
    EXPECT_EQ(call("nvmlInit_v2"), kSuccess);
  }
  ~Library() {
    unlink(path_.c_str());
    simgpu::Box::unlink_named(name_);
    unsetenv("SIMGPU_BOX");
  }
  template <class... Args>
  Return call(const char* name, Args... args) {
    auto f = reinterpret_cast<Return (*)(Args...)>(dlsym(handle_, name));
    if (!f) {
      ADD_FAILURE() << name << " is not exported";
      return kUnknown;
    }
    return f(args...);
  }
  const char* error_string(uint32_t code) {
    return reinterpret_cast<const char* (*)(uint32_t)>(dlsym(handle_, "nvmlErrorString"))(code);
  }
  bool has(const char* name) { return dlsym(handle_, name) != nullptr; }
  Device device(uint32_t index) {
    Device d = nullptr;
    EXPECT_EQ(call("nvmlDeviceGetHandleByIndex_v2", index, &d), kSuccess);
    return d;
  }
  template <class T>
  T get(const char* name, Device d) {
    T value{};
    EXPECT_EQ(call(name, d, &value), kSuccess) << name;
    return value;
  }

  std::unique_ptr<simgpu::Box> box;

 private:
  std::string name_, path_;
  void* handle_ = nullptr;
};

}  // namespace nvml_test
