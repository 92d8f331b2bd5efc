// cuMemFreeAsync of memory that no pool gave: what it takes and what it leaves behind.
#include <cstring>
#include <filesystem>

#include "tests/driver/driver_test.h"

using driver_test::Driver;

namespace {
long open_descriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::distance(begin(descriptors), end(descriptors));
}
}  // namespace

TEST_F(Driver, FreeAsyncRefusesManagedMemory) {
  CUdeviceptr p = 0;
  OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, nullptr));
  ASSERT_EQ(cuMemGetAddressRange(nullptr, nullptr, p), CUDA_SUCCESS);  // still there, still usable
  memset(reinterpret_cast<void*>(p), 7, 4096);
  OK(cuMemFree(p));
}

TEST_F(Driver, FreeAsyncRefusesHostMemory) {
  void* p = nullptr;
  OK(cuMemAllocHost(&p, 4096));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(p), nullptr));
  OK(cuMemFreeHost(p));
}

TEST_F(Driver, FreeAsyncForgetsAnExport) {
  const auto round = [] {
    CUdeviceptr p = 0;
    CUipcMemHandle handle;
    OK(cuMemAlloc(&p, 4096));
    OK(cuIpcGetMemHandle(&handle, p));
    OK(cuMemFreeAsync(p, nullptr));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, nullptr));  // twice
  };
  round();  // opens what stays open for good
  const long before = open_descriptors();
  for (int i = 0; i < 8; ++i) round();
  EXPECT_EQ(open_descriptors(), before);
}
