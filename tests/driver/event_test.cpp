#include "tests/driver/driver_test.h"

namespace {
struct Events : driver_test::Driver {
  void SetUp() override {
    Driver::SetUp();
    load();
    OK(cuMemAlloc(&buffer, 64 << 20));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&stop, 0));
  }
  float time_of(size_t bytes) {
    float ms = -1;
    EXPECT_EQ(cuEventRecord(start, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(buffer, 1, bytes, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(stop, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(stop), CUDA_SUCCESS);
    EXPECT_EQ(cuEventElapsedTime(&ms, start, stop), CUDA_SUCCESS);
    return ms;
  }
  CUdeviceptr buffer = 0;
  CUevent start = nullptr, stop = nullptr;
};
}  // namespace

TEST_F(Events, TimesFollowTheDeviceAndRepeat) {
  const float small = time_of(1 << 20), big = time_of(64 << 20), again = time_of(64 << 20);
  EXPECT_GT(big, small);
  EXPECT_EQ(big, again);
  // 64 MiB at 7.67 TB/s x 0.85 is 10.3 us.
  EXPECT_NEAR(big, 0.0113f, 0.004f);
}

TEST_F(Events, RecordCapturesTheMoment) {
  CUstream s;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuEventRecord(start, s));
  int rounds = 2000;
  OK(run(kernel("burn"), {&buffer, &rounds}, s, 64, 128));
  OK(cuEventRecord(stop, s));
  OK(cuEventRecord(start, s));  // moved behind the kernel
  OK(cuStreamSynchronize(s));
  float ms = -1;
  OK(cuEventElapsedTime(&ms, stop, start));
  EXPECT_GE(ms, 0.0f);
  EXPECT_LT(ms, 0.01f);
}

TEST_F(Events, QueriesAndErrors) {
  OK(cuEventQuery(start));  // never recorded counts as complete
  OK(cuEventSynchronize(start));
  float ms;
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, start, stop));
  CUevent untimed;
  OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  OK(cuEventRecord(untimed, nullptr));
  OK(cuEventRecord(start, nullptr));
  OK(cuEventSynchronize(untimed));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, start, untimed));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&untimed, 0x100));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&untimed, CU_EVENT_INTERPROCESS));
  int rounds = 5000;
  OK(run(kernel("burn"), {&buffer, &rounds}, nullptr, 64, 128));
  OK(cuEventRecord(stop, nullptr));
  FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(stop));
  FAILS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, start, stop));
  int polls = 0;
  while (cuEventQuery(stop) == CUDA_ERROR_NOT_READY) ++polls;  // polling passes virtual time
  EXPECT_GT(polls, 3);
  OK(cuEventQuery(stop));
  OK(cuEventDestroy(stop));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(stop));
}

TEST_F(Events, TwoKernelsOverlapWhenTheDeviceHasRoom) {
  CUstream s[2];
  CUevent end[2];
  for (int i = 0; i < 2; ++i) {
    OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&end[i], 0));
  }
  auto measure = [&](int streams, unsigned blocks) {
    int rounds = 4000;
    cuEventRecord(start, s[0]);
    cuStreamWaitEvent(s[1], start, 0);
    for (int i = 0; i < 2; ++i) {
      run(kernel("burn"), {&buffer, &rounds}, s[i % streams], blocks, 128);
      cuEventRecord(end[i], s[i % streams]);
    }
    cuCtxSynchronize();
    float first = 0, second = 0;
    cuEventElapsedTime(&first, start, end[0]);
    cuEventElapsedTime(&second, start, end[1]);
    return std::max(first, second);
  };
  const float serial = measure(1, 16), parallel = measure(2, 16);
  EXPECT_LT(parallel, serial * 0.7f);
}
