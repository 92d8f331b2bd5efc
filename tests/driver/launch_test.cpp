#include <cstring>

#include "tests/driver/driver_test.h"

namespace {
struct Launch : driver_test::Driver {
  void SetUp() override {
    Driver::SetUp();
    load();
    OK(cuMemAlloc(&buffer, 1 << 16));
  }
  CUdeviceptr buffer = 0;
};
}  // namespace

TEST_F(Launch, VectorAdd) {
  const int n = 100000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[size_t(i)] = float(i), b[size_t(i)] = 0.5f * float(i);
  CUdeviceptr da, db, dc;
  OK(cuMemAlloc(&da, n * 4));
  OK(cuMemAlloc(&db, n * 4));
  OK(cuMemAlloc(&dc, n * 4));
  OK(cuMemcpyHtoD(da, a.data(), n * 4));
  OK(cuMemcpyHtoD(db, b.data(), n * 4));
  int count = n;
  OK(run(kernel("vadd"), {&da, &db, &dc, &count}, nullptr, (n + 255) / 256, 256));
  OK(cuMemcpyDtoH(c.data(), dc, n * 4));
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[size_t(i)], 1.5f * float(i)) << i;
}

TEST_F(Launch, ParametersArriveByBothRoutes) {
  struct Mixed {
    char c;
    double d;
    int i[3];
  } m = {3, 2.25, {10, 20, 30}};
  char c = -4;
  short s = 1234;
  alignas(16) float f[4] = {1, 2, 4, 8};
  OK(run(kernel("parameters"), {&m, &c, &s, f, &buffer}));
  double out[6];
  OK(cuMemcpyDtoH(out, buffer, sizeof out));
  const double expected[6] = {3, 2.25, 60, -4, 1234, 15};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
  // The layout the toolkit uses: offsets 0/32, 32/1, 34/2, 48/16, 64/8.
  const size_t offsets[5] = {0, 32, 34, 48, 64}, sizes[5] = {32, 1, 2, 16, 8};
  for (size_t i = 0; i < 5; ++i) {
    size_t offset = 0, size = 0;
    OK(cuFuncGetParamInfo(kernel("parameters"), i, &offset, &size));
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(size, sizes[i]);
  }
  size_t offset, size;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(kernel("parameters"), 5, &offset, &size));
  alignas(16) unsigned char packed[72] = {};
  memcpy(packed, &m, sizeof m);
  packed[32] = 9;
  memcpy(packed + 34, &s, 2);
  memcpy(packed + 48, f, 16);
  memcpy(packed + 64, &buffer, 8);
  size_t bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(kernel("parameters"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  OK(cuMemcpyDtoH(out, buffer, sizeof out));
  EXPECT_EQ(out[3], 9);
  void* none[] = {nullptr};
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuLaunchKernel(kernel("parameters"), 1, 1, 1, 1, 1, 1, 0, nullptr, none, extra));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuLaunchKernel(kernel("parameters"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

TEST_F(Launch, ConfigurationErrors) {
  CUfunction f = kernel("set_value");
  int v = 1;
  void* args[] = {&buffer, &v};
  FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, nullptr, args, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, nullptr, args, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 64, 32, 1, 0, nullptr, args, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 49153, nullptr, args, nullptr));
  FAILS(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, run(kernel("bounded"), {&buffer}, nullptr, 1, 256));
  OK(run(kernel("bounded"), {&buffer}, nullptr, 1, 128));
  OK(cuCtxSynchronize());
}

TEST_F(Launch, DynamicSharedMemoryNeedsOptIn) {
  CUfunction f = kernel("dynamic_shared");
  int n = 20000;
  FAILS(CUDA_ERROR_INVALID_VALUE, run(f, {&buffer, &n}, nullptr, 1, 64, unsigned(n) * 4));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000));
  OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, n * 4));
  OK(run(f, {&buffer, &n}, nullptr, 1, 64, unsigned(n) * 4));
  EXPECT_EQ(read_int(buffer), n / 2 * (n - 1));
}

TEST_F(Launch, CooperativeGridIsBoundedByResidency) {
  CUfunction f = kernel("grid_sum");
  CUdeviceptr out = buffer + 32768;
  void* args[] = {&buffer, &out};
  OK(cuLaunchCooperativeKernel(f, 100, 1, 1, 32, 1, 1, 0, nullptr, args));
  EXPECT_EQ(read_int(out), 5050);
  int per_sm = 0, sms = 0;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, f, 1024, 0));
  OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EXPECT_GE(per_sm, 1);
  FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        cuLaunchCooperativeKernel(f, unsigned(per_sm * sms + 1), 1, 1, 1024, 1, 1, 0, nullptr, args));
}

TEST_F(Launch, OccupancyAndAttributes) {
  CUfunction f = kernel("vadd");
  int blocks = 0, block = 0, grid = 0, value = 0;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 256, 0));
  EXPECT_EQ(blocks, 8);  // 2048 threads per SM
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, nullptr, 0, 0));
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 2 * 148);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 100 << 10));
  EXPECT_EQ(blocks, 2);  // 228 KiB shared
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, f));
  EXPECT_EQ(value, 80);
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f));
  EXPECT_EQ(value, 100);
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel("bounded")));
  EXPECT_EQ(value, 128);
  const char* name = nullptr;
  OK(cuFuncGetName(&name, f));
  EXPECT_STREQ(name, "vadd");
  CUmodule owner = nullptr;
  OK(cuFuncGetModule(&owner, f));
  EXPECT_EQ(owner, module);
}

TEST_F(Launch, PrintfComesOutInOrderAtSynchronisation) {
  testing::internal::CaptureStdout();
  for (int i = 0; i < 5; ++i) OK(run(kernel("say"), {&i}));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "line 0\nline 1\nline 2\nline 3\nline 4\n");
}

TEST_F(Launch, IllegalAddressPoisonsTheContextOnly) {
  long long far_away = (1ll << 40) / 4;
  OK(run(kernel("out_of_bounds"), {&buffer, &far_away}));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  // Everything that needs the context says so from now on.
  CUdeviceptr p;
  int v = 1;
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&p, 4));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree(buffer));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, run(kernel("set_value"), {&buffer, &v}));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(nullptr));
  CUdevice d;
  OK(cuCtxGetDevice(&d));
  // Another device's context does not care.
  CUcontext other;
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxSetCurrent(other));
  OK(cuMemAlloc(&p, 4));
  OK(cuMemFree(p));
}

TEST_F(Launch, JustBeyondAnAllocationIsIllegalToo) {
  CUdeviceptr small;
  OK(cuMemAlloc(&small, 100));
  long long index = 25;  // byte 100
  OK(run(kernel("out_of_bounds"), {&small, &index}));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(nullptr));
}

TEST_F(Launch, OtherFaultsKeepTheirCodes) {
  OK(run(kernel("misaligned"), {&buffer}));
  FAILS(CUDA_ERROR_MISALIGNED_ADDRESS, cuCtxSynchronize());
  cuDevicePrimaryCtxReset(0);
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  load();
  OK(run(kernel("trap_now"), {}));
  FAILS(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
}

TEST_F(Launch, UseAfterFreeIsCaught) {
  CUdeviceptr p;
  OK(cuMemAlloc(&p, 4 << 20));
  OK(cuMemFree(p));
  int v = 1;
  OK(run(kernel("set_value"), {&p, &v}));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(Launch, ExtendedLaunchTakesAttributes) {
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[0].value.priority = -3;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[1].value.cooperative = 1;
  CUlaunchConfig config = {};
  config.gridDimX = 50;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  CUdeviceptr out = buffer + 32768;
  void* args[] = {&buffer, &out};
  OK(cuLaunchKernelEx(&config, kernel("grid_sum"), args, nullptr));
  EXPECT_EQ(read_int(out), 1275);
  attributes[0].id = CUlaunchAttributeID(999);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, kernel("grid_sum"), args, nullptr));
}
