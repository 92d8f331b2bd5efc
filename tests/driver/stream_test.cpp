#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/driver/driver_test.h"

namespace {
struct Streams : driver_test::Driver {
  void SetUp() override {
    Driver::SetUp();
    load();
    OK(cuMemAlloc(&cell, 4096));
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    host = static_cast<volatile int*>(pinned);
    for (int i = 0; i < 1024; ++i) host[i] = 0;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  }
  CUdeviceptr host_address(int i) { return reinterpret_cast<CUdeviceptr>(host + i); }
  CUdeviceptr cell = 0;
  volatile int* host = nullptr;
  CUstream a = nullptr, b = nullptr;
};
void append(void* where) {
  auto* list = static_cast<std::vector<int>*>(where);
  list->push_back(int(list->size()));
}
}  // namespace

TEST_F(Streams, WorkInOneStreamIsOrdered) {
  int v = 0;
  for (v = 1; v <= 200; ++v) OK(run(kernel("set_value"), {&cell, &v}, a));
  int seen = 0;
  OK(cuMemcpyDtoHAsync(&seen, cell, 4, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(seen, 200);
}

TEST_F(Streams, LaunchesAreAsynchronous) {
  int* out = const_cast<int*>(host);
  OK(cuStreamWaitValue32(a, host_address(0), 1, CU_STREAM_WAIT_VALUE_EQ));
  int v = 7;
  CUdeviceptr target = host_address(1);
  OK(run(kernel("set_value"), {&target, &v}, a));
  FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
  usleep(20000);
  EXPECT_EQ(out[1], 0);
  host[0] = 1;
  // No call: the progress thread gets it done.
  const auto start = std::chrono::steady_clock::now();
  while (host[1] != 7 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
  }
  EXPECT_EQ(host[1], 7);
  OK(cuStreamSynchronize(a));
  OK(cuStreamQuery(a));
}

TEST_F(Streams, EventsOrderAcrossStreams) {
  CUevent e;
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  for (int round = 0; round < 20; ++round) {
    int v = round + 1;
    OK(cuMemsetD32Async(cell, 0, 1, a));
    float* junk = nullptr;
    (void)junk;
    OK(run(kernel("add_value"), {&cell, &v}, a));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    int ten = 10;
    OK(run(kernel("add_value"), {&cell, &ten}, b));
    int seen = 0;
    OK(cuMemcpyDtoHAsync(&seen, cell, 4, b));
    OK(cuStreamSynchronize(b));
    ASSERT_EQ(seen, v + 10);
  }
}

TEST_F(Streams, LegacyStreamOrdersBlockingStreamsBothWays) {
  CUstream blocking;
  OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  for (int round = 0; round < 10; ++round) {
    int one = 1, v = 100;
    OK(run(kernel("set_value"), {&cell, &v}, blocking));
    OK(run(kernel("add_value"), {&cell, &one}, nullptr));   // after blocking
    OK(run(kernel("add_value"), {&cell, &one}, blocking));  // after legacy
    CUdeviceptr copy = cell + 4;
    OK(run(kernel("copy_value"), {&copy, &cell}, CU_STREAM_LEGACY));
    EXPECT_EQ(read_int(cell + 4), 102);
  }
  // A non-blocking stream is not held back: it finishes while the legacy stream is stuck.
  OK(cuStreamWaitValue32(nullptr, host_address(0), 1, CU_STREAM_WAIT_VALUE_EQ));
  int v = 5;
  CUdeviceptr target = host_address(8);
  OK(run(kernel("set_value"), {&target, &v}, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(host[8], 5);
  CUdeviceptr other = host_address(9);
  OK(run(kernel("set_value"), {&other, &v}, blocking));
  FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
  EXPECT_EQ(host[9], 0);
  host[0] = 1;
  OK(cuStreamSynchronize(blocking));
  EXPECT_EQ(host[9], 5);
}

TEST_F(Streams, PerThreadStreamsAreDistinct) {
  unsigned long long mine = 0, theirs = 0, legacy = 0;
  OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
  OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
  std::thread([&] {
    cuCtxSetCurrent(context);
    cuStreamGetId(CU_STREAM_PER_THREAD, &theirs);
  }).join();
  EXPECT_NE(mine, theirs);
  EXPECT_NE(mine, legacy);
  EXPECT_NE(theirs, 0u);
  int v = 9;
  OK(run(kernel("set_value"), {&cell, &v}, CU_STREAM_PER_THREAD));
  OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  EXPECT_EQ(read_int(cell), 9);
}

TEST_F(Streams, KernelsOnTwoStreamsRunAtTheSameTime) {
  // One spins until the other has written: only true concurrency ends this.
  CUdeviceptr flag = cell, seen = cell + 8;
  OK(cuMemsetD32(cell, 0, 8));
  OK(cuCtxSynchronize());  // the fill is asynchronous to non-blocking streams
  OK(run(kernel("wait_flag"), {&flag, &seen}, a));
  int v = 33;
  OK(run(kernel("raise_flag"), {&flag, &v}, b));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(seen), 33);
}

TEST_F(Streams, KernelSeesWhatTheHostWritesWhileItRuns) {
  CUdeviceptr flag = host_address(0), seen = host_address(1);
  OK(run(kernel("wait_flag"), {&flag, &seen}, a));
  std::thread writer([&] {
    usleep(30000);
    host[0] = 44;
  });
  OK(cuStreamSynchronize(a));
  writer.join();
  EXPECT_EQ(host[1], 44);
}

TEST_F(Streams, HostFunctionsRunInOrderOnAnotherThread) {
  std::vector<int> list;
  for (int i = 0; i < 10; ++i) OK(cuLaunchHostFunc(a, append, &list));
  OK(cuStreamSynchronize(a));
  ASSERT_EQ(list.size(), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(list[size_t(i)], i);
  struct Seen {
    std::thread::id thread;
    CUresult call;
  } seen{};
  OK(cuLaunchHostFunc(
      a,
      [](void* p) {
        auto* s = static_cast<Seen*>(p);
        s->thread = std::this_thread::get_id();
        CUdeviceptr m;
        s->call = cuMemAlloc(&m, 4);
      },
      &seen));
  OK(cuStreamSynchronize(a));
  EXPECT_NE(seen.thread, std::this_thread::get_id());
  EXPECT_EQ(seen.call, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(Streams, HostFunctionSeesEarlierWorkAndHoldsLaterWork) {
  struct Both {
    volatile int* host;
    int before, after;
  } both{host, -1, -1};
  int one = 1, two = 2;
  CUdeviceptr target = host_address(3);
  OK(run(kernel("set_value"), {&target, &one}, a));
  OK(cuLaunchHostFunc(
      a,
      [](void* p) {
        auto* s = static_cast<Both*>(p);
        s->before = s->host[3];
        usleep(20000);
        s->after = s->host[3];
      },
      &both));
  OK(run(kernel("set_value"), {&target, &two}, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(both.before, 1);
  EXPECT_EQ(both.after, 1);
  EXPECT_EQ(host[3], 2);
}

TEST_F(Streams, CallbackGetsStreamAndStatus) {
  struct Seen {
    CUstream stream = nullptr;
    CUresult status = CUDA_ERROR_UNKNOWN;
  } seen;
  OK(cuStreamAddCallback(
      a,
      [](CUstream s, CUresult r, void* p) {
        *static_cast<Seen*>(p) = {s, r};
      },
      &seen, 0));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(seen.stream, a);
  EXPECT_EQ(seen.status, CUDA_SUCCESS);
}

TEST_F(Streams, PageableSourceMayChangeAfterTheCall) {
  std::vector<int> source(1000, 1);
  OK(cuStreamWaitValue32(a, host_address(0), 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuMemcpyHtoDAsync(cell, source.data(), 4000, a));
  std::fill(source.begin(), source.end(), 2);
  host[0] = 1;
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(cell), 1);
  // Pinned memory is read when the copy runs.
  host[0] = 0;
  host[100] = 1;
  OK(cuStreamWaitValue32(a, host_address(0), 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuMemcpyHtoDAsync(cell, const_cast<int*>(host) + 100, 4, a));
  host[100] = 2;
  host[0] = 1;
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(cell), 2);
}

TEST_F(Streams, DeadlockIsReportedAndEnds) {
  OK(cuStreamWaitValue32(a, host_address(0), 1, CU_STREAM_WAIT_VALUE_EQ));
  testing::internal::CaptureStderr();
  FAILS(CUDA_ERROR_LAUNCH_TIMEOUT, cuStreamSynchronize(a));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("simgpu: deadlock: "), std::string::npos) << said;
  EXPECT_NE(said.find("wait for memory value"), std::string::npos) << said;
  FAILS(CUDA_ERROR_LAUNCH_TIMEOUT, cuStreamSynchronize(b));
}

TEST_F(Streams, MemoryOperationsInABatch) {
  CUstreamBatchMemOpParams ops[3] = {};
  ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[0].writeValue.address = cell;
  ops[0].writeValue.value = 12;
  ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  ops[1].writeValue.address = cell + 8;
  ops[1].writeValue.value64 = 0x123456789abcull;
  ops[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[2].waitValue.address = cell;
  ops[2].waitValue.value = 12;
  ops[2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  OK(cuStreamBatchMemOp(a, 3, ops, 0));
  OK(cuStreamSynchronize(a));
  unsigned long long v = 0;
  OK(cuMemcpyDtoH(&v, cell + 8, 8));
  EXPECT_EQ(v, 0x123456789abcull);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(a, cell + 1, 0, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(a, 0x1000, 0, 0));
}

TEST_F(Streams, PropertiesAreKept) {
  int least = 9, greatest = 9, priority = 9;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);
  CUstream s;
  OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -100));
  OK(cuStreamGetPriority(s, &priority));
  EXPECT_EQ(priority, greatest);
  unsigned flags = 0;
  OK(cuStreamGetFlags(s, &flags));
  EXPECT_EQ(flags, unsigned(CU_STREAM_NON_BLOCKING));
  CUcontext c;
  OK(cuStreamGetCtx(s, &c));
  EXPECT_EQ(c, context);
  CUdevice d = -1;
  OK(cuStreamGetDevice(s, &d));
  EXPECT_EQ(d, 0);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&s, 0x40));
}

TEST_F(Streams, ManyThreadsSubmitAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      if (cuCtxSetCurrent(context)) ++failures;
      CUstream s;
      CUdeviceptr p;
      if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuMemAlloc(&p, 4)) ++failures;
      if (cuMemsetD32Async(p, 0, 1, s)) ++failures;
      int one = 1;
      for (int i = 0; i < 300; ++i) {
        void* args[] = {&p, &one};
        CUfunction f;
        if (cuModuleGetFunction(&f, module, "add_value") ||
            cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, nullptr))
          ++failures;
      }
      int seen = 0;
      if (cuMemcpyDtoHAsync(&seen, p, 4, s) || seen != 300) ++failures;
      if (cuStreamDestroy(s) || cuMemFree(p)) ++failures;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(failures, 0);
}
