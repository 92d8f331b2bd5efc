// Asks the occupancy calculator for a launch shape, as libraries do, and computes the same result whatever it
// answers.
#include "check.h"

__global__ void __launch_bounds__(512) collatz(const unsigned* in, unsigned* out, int n) {
  extern __shared__ unsigned scratch[];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned v = in[i], steps = 0;
    while (v != 1 && steps < 60) {
      v = v & 1 ? 3 * v + 1 : v / 2;
      ++steps;
    }
    scratch[threadIdx.x] = steps;
    out[i] = scratch[threadIdx.x] * 1000u + (v & 0xff);
  }
}

struct SharedBytes {
  __host__ __device__ size_t operator()(int threads) const { return threads * sizeof(unsigned); }
};

int main() {
  Report report;
  const int n = 6000;
  int grid = 0, block = 0, resident = 0, limited = 0;
  const SharedBytes shared;
  CUDA(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, collatz, shared));
  report.check("block size is a whole number of warps", block > 0 && block % 32 == 0 && block <= 512);
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, collatz, block, shared(block)));
  report.check("a block fits", resident >= 1);
  int unlimited = 0;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&limited, collatz, 32, 40 * 1024));
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&unlimited, collatz, 32, 0));
  report.check("shared memory limits residency", limited >= 1 && limited < unlimited);
  size_t available = 0;
  CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&available, collatz, 2, 128));
  report.check("shared memory of half an SM", available > 0);
  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, collatz));
  report.check("launch bounds", attributes.maxThreadsPerBlock == 512);

  std::vector<unsigned> in(n), expected(n);
  for (int i = 0; i < n; ++i) {
    in[i] = i + 1;
    unsigned v = in[i], steps = 0;
    while (v != 1 && steps < 60) {
      v = v & 1 ? 3 * v + 1 : v / 2;
      ++steps;
    }
    expected[i] = steps * 1000u + (v & 0xff);
  }
  unsigned* d_in = device_copy(in);
  unsigned* d_out = device_array<unsigned>(n);
  if (grid > 64) grid = 64;
  collatz<<<grid, block, shared(block)>>>(d_in, d_out, n);
  CUDA(cudaGetLastError());
  const std::vector<unsigned> out = host_copy(d_out, n);
  report.check("collatz", same(out, expected), digest(out));
  return report.finish();
}
