// The library that plugin_main.cpp opens and closes.
#include "check.h"

__device__ int counter;

__global__ void count(int* out, int by) {
  atomicAdd(&counter, by);
  __syncthreads();
  if (threadIdx.x == 0) *out = counter;
}

extern "C" int plugin_run(int round) {
  Report report;
  int* out = device_array<int>(1);
  count<<<1, 32>>>(out, round + 1);
  CUDA(cudaGetLastError());
  const int got = host_copy(out, 1)[0];
  CUDA(cudaFree(out));
  // A fresh load has a fresh counter: nothing of the previous round is left.
  report.check("fresh counter", got == 32 * (round + 1), static_cast<uint64_t>(got));
  return report.failed;
}
