// What programs do around collectives, one scenario after another, each printing a digest that must not
// depend on who moved what. One thread drives all ranks, a device each, unless a scenario says otherwise;
// every scenario repeats often enough for the engine to move its collectives.
//   traps [repetitions]
#include <atomic>
#include <chrono>

#include "../apps/overlap/ranks.h"

namespace {

constexpr int kSize = 2048, kRanks = 2;

struct World {
  ncclComm_t comm[kRanks];
  cudaStream_t stream[kRanks], other[kRanks], blocking[kRanks];
  float *a[kRanks], *b[kRanks], *c[kRanks];
};

template <class F>
void each(F&& body) {
  for (int r = 0; r < kRanks; ++r) {
    CHECK(cudaSetDevice(r));
    body(r);
  }
}

void group_reduce(World& w, float** buffers, cudaStream_t* streams, ncclRedOp_t op = ncclSum) {
  NCCL(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    NCCL(ncclAllReduce(buffers[r], buffers[r], kSize, ncclFloat, op, w.comm[r], streams[r]));
  NCCL(ncclGroupEnd());
}

void finish(const char* name, World& w) {
  uint64_t h = 0;
  each([&](int r) {
    CHECK(cudaDeviceSynchronize());
    h = h * 31 + digest(w.a[r], kSize), h = h * 31 + digest(w.b[r], kSize),
    h = h * 31 + digest(w.c[r], kSize);
  });
  std::printf("%s %016lx\n", name, static_cast<unsigned long>(h));
  std::fflush(stdout);
}

// Its argument's bytes are not known to anybody who reads the code.
__global__ void indirect(float** where, float by) {
  if (threadIdx.x < kSize) (*where)[threadIdx.x] += by;
}
__global__ void set_flag(int* flag, const float* from) {
  if (threadIdx.x == 0) *flag = 1 + (from[0] != from[0]);
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 6;
  World w;
  int devices[kRanks] = {0, 1};
  CHECK(cudaFree(nullptr));  // a communicator made before the driver is loaded is not seen being made
  NCCL(ncclCommInitAll(w.comm, kRanks, devices));
  each([&](int r) {
    CHECK(cudaStreamCreateWithFlags(&w.stream[r], cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&w.other[r], cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&w.blocking[r]));
    w.a[r] = upload(ramp(kSize, 1.0f + r)), w.b[r] = upload(ramp(kSize, 0.5f)),
    w.c[r] = upload(ramp(kSize, 0.25f));
    CHECK(cudaDeviceSynchronize());
  });
  cudaStream_t legacy[kRanks] = {}, own[kRanks] = {cudaStreamPerThread, cudaStreamPerThread};

  for (int i = 0; i < n; ++i) {  // one thread, several devices, one group
    group_reduce(w, w.a, w.stream);
    each([&](int r) { compute(w.b[r], w.c[r], 0.01f, kSize, 20, w.stream[r]); });
    each([&](int r) { compute(w.a[r], w.b[r], 0.001f, kSize, 2, w.stream[r]); });
  }
  finish("group of devices", w);

  for (int i = 0; i < n; ++i) {  // the legacy stream waits for blocking ones and they for it
    group_reduce(w, w.a, w.blocking);
    each([&](int r) { compute(w.b[r], w.c[r], 0.01f, kSize, 20, nullptr); });
    each([&](int r) { compute(w.a[r], w.b[r], 0.001f, kSize, 2, nullptr); });
    group_reduce(w, w.b, legacy);
    each([&](int r) { compute(w.c[r], w.c[r], 0.001f, kSize, 20, w.blocking[r]); });
    each([&](int r) { compute(w.b[r], w.a[r], 0.001f, kSize, 2, w.blocking[r]); });
  }
  finish("legacy stream", w);

  for (int i = 0; i < n; ++i) {
    group_reduce(w, w.a, own);
    each([&](int r) { compute(w.b[r], w.c[r], 0.01f, kSize, 20, cudaStreamPerThread); });
    each([&](int r) { compute(w.a[r], w.b[r], 0.001f, kSize, 2, nullptr); });
    each([&](int r) { CHECK(cudaMemcpy(w.c[r], w.a[r], 64, cudaMemcpyDeviceToDevice)); });
  }
  finish("per-thread stream", w);

  cudaEvent_t made[kRanks], used[kRanks];
  each([&](int r) {
    CHECK(cudaEventCreateWithFlags(&made[r], cudaEventDisableTiming));
    CHECK(cudaEventCreate(&used[r]));
  });
  for (int i = 0; i < n; ++i) {  // other streams behind events recorded after collectives
    group_reduce(w, w.a, w.stream);
    each([&](int r) {
      CHECK(cudaEventRecord(made[r], w.stream[r]));
      compute(w.b[r], w.b[r], 0.0001f, kSize, 20, w.stream[r]);
      CHECK(cudaStreamWaitEvent(w.other[r], made[r], 0));
      compute(w.c[r], w.a[r], 0.001f, kSize, 4, w.other[r]);
      CHECK(cudaEventRecord(used[r], w.other[r]));
      CHECK(cudaStreamWaitEvent(w.stream[r], used[r], 0));
    });
    group_reduce(w, w.c, w.other);
    each([&](int r) {
      CHECK(cudaEventRecord(used[r], w.other[r]));
      CHECK(cudaStreamWaitEvent(w.stream[r], used[r], 0));
      compute(w.a[r], w.c[r], 0.001f, kSize, 2, w.stream[r]);
    });
  }
  finish("events across streams", w);

  // A scalar on the device, changed right behind the collective that reads it.
  float* scalar[kRanks];
  ncclRedOp_t scaled[kRanks];
  each([&](int r) {
    scalar[r] = upload({0.5f});
    CHECK(cudaDeviceSynchronize());
    NCCL(ncclRedOpCreatePreMulSum(&scaled[r], scalar[r], ncclFloat, ncclScalarDevice, w.comm[r]));
  });
  for (int i = 0; i < n; ++i) {
    NCCL(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL(ncclAllReduce(w.a[r], w.b[r], kSize, ncclFloat, scaled[r], w.comm[r], w.stream[r]));
    NCCL(ncclGroupEnd());
    each([&](int r) {
      compute(w.c[r], w.c[r], 0.001f, kSize, 20, w.stream[r]);
      compute(scalar[r], w.c[r], 0.01f, 1, 1, w.stream[r]);
    });
  }
  finish("scalar on the device", w);

  // Memory given back and taken anew on the stream while the collective is pending.
  for (int i = 0; i < n; ++i) {
    float* fresh[kRanks];
    each([&](int r) {
      CHECK(cudaMallocAsync(&fresh[r], kSize * sizeof(float), w.stream[r]));
      CHECK(cudaMemcpyAsync(fresh[r], w.a[r], kSize * sizeof(float), cudaMemcpyDeviceToDevice, w.stream[r]));
    });
    group_reduce(w, fresh, w.stream);
    each([&](int r) {
      compute(w.b[r], w.c[r], 0.001f, kSize, 20, w.stream[r]);
      compute(w.c[r], fresh[r], 0.001f, kSize, 2, w.stream[r]);
      CHECK(cudaFreeAsync(fresh[r], w.stream[r]));
    });
  }
  finish("stream-ordered memory", w);

  // The host is told by a flag, a callback, a copy.
  int* flag[kRanks];
  float** where[kRanks];
  each([&](int r) {
    CHECK(cudaHostAlloc(&flag[r], sizeof(int), cudaHostAllocMapped));
    CHECK(cudaMalloc(&where[r], sizeof(float*)));
    CHECK(cudaMemcpy(where[r], &w.a[r], sizeof(float*), cudaMemcpyHostToDevice));
  });
  for (int i = 0; i < n; ++i) {
    each([&](int r) { *flag[r] = 0; });
    group_reduce(w, w.a, w.stream);
    each([&](int r) {
      compute(w.b[r], w.c[r], 0.001f, kSize, 10, w.stream[r]);
      indirect<<<1, 128, 0, w.stream[r]>>>(where[r], 0.5f);
      set_flag<<<1, 32, 0, w.stream[r]>>>(flag[r], w.b[r]);
    });
    each([&](int r) {
      volatile int* seen = flag[r];
      while (*seen == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      static std::atomic<int> called{0};
      CHECK(cudaLaunchHostFunc(
          w.stream[r], [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &called));
      float first = 0;
      CHECK(cudaMemcpyAsync(&first, w.a[r], sizeof first, cudaMemcpyDeviceToHost, w.stream[r]));
      CHECK(cudaStreamSynchronize(w.stream[r]));
    });
  }
  finish("seen by the host", w);

  // Captured once, launched often, with collectives outside in between.
  cudaGraphExec_t graph[kRanks];
  each([&](int r) {
    CHECK(cudaStreamBeginCapture(w.stream[r], cudaStreamCaptureModeThreadLocal));
    compute(w.a[r], w.b[r], 0.001f, kSize, 2, w.stream[r]);
    graph[r] = finish_capture(w.stream[r]);
  });
  for (int i = 0; i < n; ++i) {
    group_reduce(w, w.a, w.stream);
    each([&](int r) {
      compute(w.b[r], w.c[r], 0.001f, kSize, 10, w.stream[r]);
      CHECK(cudaGraphLaunch(graph[r], w.stream[r]));
    });
  }
  finish("graphs", w);

  // A second communicator beside the first, then an end with work still pending.
  ncclComm_t half[kRanks];
  NCCL(ncclCommInitAll(half, kRanks, devices));
  for (int i = 0; i < n; ++i) {
    group_reduce(w, w.a, w.stream);
    NCCL(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL(ncclBroadcast(w.b[r], w.b[r], kSize, ncclFloat, 1, half[r], w.stream[r]));
    NCCL(ncclGroupEnd());
    each([&](int r) { compute(w.c[r], w.c[r], 0.001f, kSize, 10, w.stream[r]); });
    each([&](int r) { compute(w.c[r], w.b[r], 0.001f, kSize, 2, w.stream[r]); });
  }
  group_reduce(w, w.a, w.stream);
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommDestroy(half[r]));
  finish("two communicators", w);
  each([&](int r) { CHECK(cudaStreamDestroy(w.other[r])); });
  group_reduce(w, w.a, w.stream);
  each([&](int r) { CHECK(cudaStreamDestroy(w.stream[r])); });
  finish("destroyed streams", w);
  return 0;
}
