// SIMGPU_FAULTS: each schedule in a fresh process of this binary.
#include <cstdlib>

#include "tests/driver/driver_test.h"

namespace {
std::string child(const std::string& faults, const std::string& test) {
  const std::string command = "SIMGPU_FAULTS='" + faults + "' " + testing::internal::GetArgvs()[0] +
                              " --gtest_also_run_disabled_tests --gtest_filter=Child.DISABLED_" + test +
                              " 2>/dev/null | grep '^out:'";
  FILE* pipe = popen(command.c_str(), "r");
  char line[512] = "";
  if (!fgets(line, sizeof line, pipe)) line[0] = 0;
  pclose(pipe);
  std::string text = line;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}
}  // namespace

TEST(Child, DISABLED_Allocations) {
  CUcontext c;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxSetCurrent(c));
  std::string codes = "out:";
  for (int i = 0; i < 5; ++i) {
    CUdeviceptr p;
    codes += " " + std::to_string(cuMemAlloc(&p, 16));
  }
  printf("%s\n", codes.c_str());
}
TEST(Child, DISABLED_Missing) {
  void* p = nullptr;
  const CUresult r = cuGetProcAddress_v2("cuLaunchKernelEx", &p, 13000, 0, nullptr);
  const CUresult s = cuGetProcAddress_v2("cuLaunchKernel", &p, 13000, 0, nullptr);
  printf("out: %d %d\n", r, s);
}

TEST(Faults, StrikeWhereAndWhenAsked) {
  EXPECT_EQ(child("", "Allocations"), "out: 0 0 0 0 0");
  EXPECT_EQ(child("alloc@3", "Allocations"), "out: 0 0 2 0 0");
  EXPECT_EQ(child("alloc@2+=46", "Allocations"), "out: 0 46 46 46 46");
  EXPECT_EQ(child("alloc@*", "Allocations"), "out: 2 2 2 2 2");
  EXPECT_EQ(child("alloc%1.0", "Allocations"), "out: 2 2 2 2 2");
  EXPECT_EQ(child("call:cuMemAlloc@2=999", "Allocations"), "out: 0 999 0 0 0");
  EXPECT_EQ(child("driver_missing:cuLaunchKernelEx", "Missing"), "out: 500 0");
}
