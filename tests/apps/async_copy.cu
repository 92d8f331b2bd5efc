// Asynchronous copies from global to shared memory: the pipeline primitives (cp.async) and cuda::barrier
// (mbarrier), double buffered. PTX for 8.0.
#include <cuda_pipeline.h>
#include <cuda/barrier>

#include "check.h"

__global__ void pipeline(const int4* in, int* out, int tiles) {
  __shared__ int4 buffer[2][64];
  const int t = threadIdx.x;
  int sum = 0;
  __pipeline_memcpy_async(&buffer[0][t], &in[t], sizeof(int4));
  __pipeline_commit();
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      __pipeline_memcpy_async(&buffer[(tile + 1) & 1][t], &in[(tile + 1) * 64 + t], sizeof(int4));
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const int4 v = buffer[tile & 1][63 - t];
    sum = sum * 7 + v.x + 2 * v.y + 3 * v.z + 4 * v.w;
    __syncthreads();
  }
  out[t] = sum;
}

__global__ void barriers(const int* in, int* out, int rounds) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  __shared__ int buffer[128];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  int sum = 0;
  for (int r = 0; r < rounds; ++r) {
    cuda::memcpy_async(&buffer[threadIdx.x], &in[r * 128 + threadIdx.x], sizeof(int), barrier);
    barrier.arrive_and_wait();
    sum += buffer[(threadIdx.x * 5 + r) & 127] * (r + 1);
    barrier.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}

int main() {
  Report report;
  const int tiles = 9, rounds = 6;
  Random random(34);
  std::vector<int4> in(64 * tiles);
  for (int4& v : in)
    v = make_int4(random.next() & 0xff, random.next() & 0xff, random.next() & 0xff, random.next() & 0xff);
  std::vector<int> want(64), want2(128), in2(128 * rounds);
  for (int t = 0; t < 64; ++t) {
    unsigned sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      const int4 v = in[tile * 64 + 63 - t];
      sum = sum * 7 + v.x + 2 * v.y + 3 * v.z + 4 * v.w;
    }
    want[t] = static_cast<int>(sum);
  }
  int* out = device_array<int>(128);
  pipeline<<<1, 64>>>(device_copy(in), out, tiles);
  CUDA(cudaGetLastError());
  std::vector<int> got = host_copy(out, 64);
  report.check("pipeline", same(got, want), digest(got));

  for (int& v : in2) v = static_cast<int>(random.next() & 0xffff);
  for (int t = 0; t < 128; ++t) {
    for (int r = 0; r < rounds; ++r) want2[t] += in2[r * 128 + ((t * 5 + r) & 127)] * (r + 1);
  }
  barriers<<<1, 128>>>(device_copy(in2), out, rounds);
  CUDA(cudaGetLastError());
  got = host_copy(out, 128);
  report.check("barrier", same(got, want2), digest(got));
  return report.finish();
}
