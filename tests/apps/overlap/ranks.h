// Ranks as threads, one device each (device = rank modulo the devices there are), for the NCCL programs.
//   program [iterations] [time]      NRANKS=2 by default
#pragma once
#include <nccl.h>

#include <functional>
#include <thread>

#include "../graphs/loop.h"

#define NCCL(call)                                                                                     \
  do {                                                                                                 \
    ncclResult_t result_ = (call);                                                                     \
    if (result_ != ncclSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(result_)); \
      std::exit(1);                                                                                    \
    }                                                                                                  \
  } while (0)

struct Rank {
  int rank, ranks;
  ncclComm_t comm, second;  // two communicators over the same ranks; most programs use the first
  cudaStream_t compute, side;
  uint64_t result = 0;
  double us = 0;
};

// Runs `body` on every rank and prints one line: the ranks' digests folded, which must not depend on timing.
inline int run_ranks(const Arguments& a, const std::function<void(Rank&)>& body) {
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  const char* wanted = std::getenv("NRANKS");
  const int ranks = wanted ? std::atoi(wanted) : devices < 2 ? 1 : 2;
  if (ranks < 1 || ranks > devices) {
    std::fprintf(stderr, "%d ranks need as many devices, there are %d\n", ranks, devices);
    return 2;
  }
  ncclUniqueId first, second;
  NCCL(ncclGetUniqueId(&first));
  NCCL(ncclGetUniqueId(&second));
  std::vector<Rank> all(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Rank& me = all[r];
      me.rank = r;
      me.ranks = ranks;
      CHECK(cudaSetDevice(r));
      NCCL(ncclCommInitRank(&me.comm, ranks, first, r));
      NCCL(ncclCommInitRank(&me.second, ranks, second, r));
      CHECK(cudaStreamCreateWithFlags(&me.compute, cudaStreamNonBlocking));
      CHECK(cudaStreamCreateWithFlags(&me.side, cudaStreamNonBlocking));
      cudaEvent_t start, stop;
      CHECK(cudaEventCreate(&start));
      CHECK(cudaEventCreate(&stop));
      CHECK(cudaDeviceSynchronize());
      CHECK(cudaEventRecord(start, me.compute));
      body(me);
      CHECK(cudaEventRecord(stop, me.compute));
      CHECK(cudaDeviceSynchronize());
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, start, stop));
      me.us = 1e3 * ms / a.iterations;
      NCCL(ncclCommDestroy(me.second));
      NCCL(ncclCommDestroy(me.comm));
    });
  }
  for (auto& t : threads) t.join();
  uint64_t folded = 0;
  double slowest = 0;
  for (const Rank& r : all) folded = folded * 31 + r.result, slowest = std::max(slowest, r.us);
  std::printf("ranks %d iterations %d digest %016lx\n", ranks, a.iterations,
              static_cast<unsigned long>(folded));
  if (a.time) std::printf("us_per_iteration %.3f\n", slowest);
  return 0;
}

// y = x * by + y, repeated `work` times: compute of adjustable length that touches exactly its two arguments.
static __global__ void axpy(float* y, const float* x, float by, int n, int work) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = y[i];
  for (int k = 0; k < work; ++k) v = v * 0.9995f + x[i] * by;
  y[i] = v;
}

inline void compute(float* y, const float* x, float by, int n, int work, cudaStream_t s) {
  axpy<<<(n + 127) / 128, 128, 0, s>>>(y, x, by, n, work);
}
