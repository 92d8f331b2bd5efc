// Any value may be passed as a handle: NULL, freed, foreign or of another kind. The answer is a code, never a
// crash.
#include "tests/driver/driver_test.h"

using driver_test::Driver;

TEST_F(Driver, StreamsAndEventsAreValidated) {
  int on_stack = 0;
  void* junk[] = {reinterpret_cast<void*>(0x10), reinterpret_cast<void*>(~0ull), &on_stack, context};
  for (void* j : junk) {
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(static_cast<CUstream>(j)));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(static_cast<CUstream>(j)));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(static_cast<CUevent>(j)));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(static_cast<CUevent>(j)));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(static_cast<CUmodule>(j)));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(static_cast<CUlibrary>(j)));
    FAILS(CUDA_ERROR_INVALID_HANDLE,
          cuLaunchKernel(static_cast<CUfunction>(j), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(static_cast<CUlinkState>(j)));
  }
  CUkernel k;
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernel(&k, nullptr, "x"));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(reinterpret_cast<CUcontext>(&on_stack)));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(nullptr));
}

TEST_F(Driver, FreedHandlesStayDeadWhileOthersComeAndGo) {
  CUstream s;
  OK(cuStreamCreate(&s, 0));
  OK(cuStreamDestroy(s));
  for (int i = 0; i < 1000; ++i) {
    CUstream t;
    OK(cuStreamCreate(&t, 0));
    ASSERT_NE(t, s);
    OK(cuStreamDestroy(t));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(s));
  }
}

TEST_F(Driver, CreatedContextTakesItsObjectsAlong) {
  CUcontext c;
  OK(cuCtxCreate(&c, nullptr, 0, 0));
  CUstream s;
  CUevent e;
  CUdeviceptr p;
  OK(cuStreamCreate(&s, 0));
  OK(cuEventCreate(&e, 0));
  OK(cuMemAlloc(&p, 1 << 20));
  OK(cuCtxDestroy(c));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(s));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(e));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(c));
  CUcontext now = nullptr;
  OK(cuCtxGetCurrent(&now));
  EXPECT_EQ(now, context);
}

TEST_F(Driver, ContextStackAndState) {
  CUcontext c;
  OK(cuCtxCreate(&c, nullptr, CU_CTX_SCHED_SPIN, 1));
  CUdevice d = -1;
  OK(cuCtxGetDevice(&d));
  EXPECT_EQ(d, 1);
  CUcontext popped;
  OK(cuCtxPopCurrent(&popped));
  EXPECT_EQ(popped, c);
  OK(cuCtxGetDevice(&d));
  EXPECT_EQ(d, 0);
  OK(cuCtxSetCurrent(nullptr));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&d));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&popped));
  CUdeviceptr p;
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4));
  unsigned flags = 0;
  int active = -1;
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  OK(cuDevicePrimaryCtxGetState(2, &flags, &active));
  EXPECT_EQ(active, 0);
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(2));
  OK(cuCtxDestroy(c));
  OK(cuCtxSetCurrent(context));
  OK(cuDevicePrimaryCtxRelease(0));  // last reference: the context goes, though it is current here
  FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 4));
  unsigned long long id1 = 0, id2 = 0;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuCtxGetId(context, &id1));
  OK(cuCtxGetId(nullptr, &id2));
  EXPECT_EQ(id1, id2);
  size_t value = 0;
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 3001));
  OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_GE(value, 3001u);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&value, CUlimit(99)));
}
