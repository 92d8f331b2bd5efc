// Shared by the driver tests: the box, a current primary context per test, the kernels, checked calls.
#pragma once
#include <cuda.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

inline const char* name_of(CUresult r) {
  const char* name = nullptr;
  return cuGetErrorName(r, &name) == CUDA_SUCCESS ? name : "unknown";
}
#define OK(call)                                                           \
  do {                                                                     \
    const CUresult result_ = (call);                                       \
    ASSERT_EQ(result_, CUDA_SUCCESS) << #call << ": " << name_of(result_); \
  } while (0)
#define FAILS(code, call)                                                                            \
  do {                                                                                               \
    const CUresult result_ = (call);                                                                 \
    EXPECT_EQ(result_, code) << #call << ": " << name_of(result_) << ", expected " << name_of(code); \
  } while (0)

namespace driver_test {
// Before anything touches the driver; ctest and by-hand runs see the same box.
struct Environment {
  Environment() {
    setenv("SIMGPU_SPEC", "b200:2,rubin:1", 0);
    setenv("SIMGPU_LINKS", "nvlink5", 0);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
    setenv("SIMGPU_DEADLOCK_MS", "300", 0);
  }
};
inline Environment environment;

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Driver : public ::testing::Test {
 protected:
  void SetUp() override {
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
  }
  void TearDown() override {
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxReset(0);
    cuDevicePrimaryCtxReset(1);
    cuDevicePrimaryCtxReset(2);
  }
  void load() {
    const std::string ptx = read_file(KERNELS ".ptx");
    ASSERT_FALSE(ptx.empty());
    OK(cuModuleLoadData(&module, ptx.c_str()));
  }
  CUfunction kernel(const char* name) {
    CUfunction f = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&f, module, name), CUDA_SUCCESS) << name;
    return f;
  }
  CUresult run(CUfunction f, std::vector<void*> args, CUstream stream = nullptr, unsigned grid = 1,
               unsigned block = 1, unsigned shared = 0) {
    return cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, stream, args.data(), nullptr);
  }
  int read_int(CUdeviceptr p) {
    int value = -1;
    EXPECT_EQ(cuMemcpyDtoH(&value, p, sizeof value), CUDA_SUCCESS);
    return value;
  }
  CUcontext context = nullptr;
  CUmodule module = nullptr;
};
}  // namespace driver_test
