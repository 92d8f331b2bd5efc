// Inclusive prefix sum: warp shuffles, warp totals in shared memory, block totals in a second launch.
#include "check.h"

__device__ int warp_scan(int v) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const int up = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += up;
  }
  return v;
}

__global__ void scan_blocks(const int* in, int* out, int* totals, int n) {
  __shared__ int warp_total[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = warp_scan(i < n ? in[i] : 0);
  if ((threadIdx.x & 31) == 31) warp_total[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    const int warps = blockDim.x / 32;
    const int t = warp_scan(threadIdx.x < warps ? warp_total[threadIdx.x] : 0);
    if (threadIdx.x < warps) warp_total[threadIdx.x] = t;
  }
  __syncthreads();
  if (threadIdx.x >= 32) v += warp_total[(threadIdx.x >> 5) - 1];
  if (i < n) out[i] = v;
  if (threadIdx.x == blockDim.x - 1 && totals) totals[blockIdx.x] = v;
}

__global__ void add_offsets(int* out, const int* totals, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x > 0 && i < n) out[i] += totals[blockIdx.x - 1];
}

int main() {
  const int n = 50021, block = 256, blocks = (n + block - 1) / block;
  Random random(5);
  std::vector<int> in(n), expected(n);
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    in[i] = static_cast<int>(random.next() % 2001) - 1000;
    sum += in[i];
    expected[i] = sum;
  }
  int* d_in = device_copy(in);
  int* d_out = device_array<int>(n);
  int* d_totals = device_array<int>(blocks);
  scan_blocks<<<blocks, block>>>(d_in, d_out, d_totals, n);
  scan_blocks<<<1, 224>>>(d_totals, d_totals, nullptr, blocks);  // 196 block totals: one block of 7 warps
  add_offsets<<<blocks, block>>>(d_out, d_totals, n);
  CUDA(cudaGetLastError());
  const std::vector<int> out = host_copy(d_out, n);
  Report report;
  report.check("prefix sum", same(out, expected), digest(out));
  return report.finish();
}
