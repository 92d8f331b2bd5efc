#include "tests/driver/driver_test.h"

namespace {
struct Peers : driver_test::Driver {
  void SetUp() override {
    Driver::SetUp();
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    OK(cuMemAlloc(&theirs, 4096));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&mine, 4096));
    load();
  }
  CUcontext other = nullptr;
  CUdeviceptr mine = 0, theirs = 0;
};
}  // namespace

TEST_F(Peers, CopiesNeedNoAccess) {
  OK(cuMemsetD32(mine, 123, 4));
  OK(cuMemcpyPeer(theirs, other, mine, context, 16));
  EXPECT_EQ(read_int(theirs), 123);
  OK(cuMemsetD32(mine, 124, 4));
  OK(cuMemcpyDtoD(theirs, mine, 16));
  EXPECT_EQ(read_int(theirs), 124);
  CUstream s;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemsetD32Async(mine, 125, 4, s));
  OK(cuMemcpyPeerAsync(theirs, other, mine, context, 16, s));
  OK(cuStreamSynchronize(s));
  EXPECT_EQ(read_int(theirs), 125);
}

TEST_F(Peers, KernelsNeedAccess) {
  int can = 0;
  OK(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  OK(cuDeviceCanAccessPeer(&can, 0, 0));
  EXPECT_EQ(can, 0);
  OK(cuCtxEnablePeerAccess(other, 0));
  FAILS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other, 0));
  int v = 55;
  OK(run(kernel("set_value"), {&theirs, &v}));
  EXPECT_EQ(read_int(theirs), 55);
  OK(cuCtxDisablePeerAccess(other));
  FAILS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other));
  OK(run(kernel("set_value"), {&theirs, &v}));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(Peers, ArgumentErrors) {
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(nullptr, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(other, 1));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuCtxEnablePeerAccess(context, 0));
  int v = 0;
  FAILS(CUDA_ERROR_INVALID_DEVICE,
        cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
  OK(cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
  EXPECT_EQ(v, 1);
}

TEST_F(Peers, StreamsAndFunctionsBelongToTheirContext) {
  OK(cuCtxSetCurrent(other));
  CUstream s;
  OK(cuStreamCreate(&s, 0));
  int v = 1;
  FAILS(CUDA_ERROR_INVALID_HANDLE,
        run(kernel("set_value"), {&theirs, &v}, s));  // function of device 0's context
  CUevent e;
  OK(cuEventCreate(&e, 0));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(e, [&] {
          cuCtxSetCurrent(context);
          CUstream t;
          cuStreamCreate(&t, 0);
          return t;
        }()));
}

TEST_F(Peers, EventsOrderAcrossDevices) {
  OK(cuCtxSetCurrent(other));
  CUstream s1;
  OK(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
  OK(cuCtxSetCurrent(context));
  CUstream s0;
  CUevent e;
  OK(cuStreamCreate(&s0, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < 10; ++i) {
    OK(cuMemsetD32Async(mine, unsigned(i), 4, s0));
    OK(cuEventRecord(e, s0));
    OK(cuStreamWaitEvent(s1, e, 0));
    OK(cuMemcpyPeerAsync(theirs, other, mine, context, 16, s1));
    OK(cuStreamSynchronize(s1));
    ASSERT_EQ(read_int(theirs), i);
  }
}
