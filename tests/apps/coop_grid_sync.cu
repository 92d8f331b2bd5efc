// Cooperative launch: blocks exchange data across grid-wide barriers; tiles and coalesced groups within a
// block.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace cg = cooperative_groups;

// One Jacobi-like sweep a step over a ring; every step needs all blocks' previous values.
__global__ void ring(unsigned* a, unsigned* b, int n, int steps) {
  cg::grid_group grid = cg::this_grid();
  for (int s = 0; s < steps; ++s) {
    for (int i = grid.thread_rank(); i < n; i += grid.size())
      b[i] = a[(i + n - 1) % n] + 3u * a[i] + a[(i + 1) % n];
    grid.sync();
    unsigned* t = a;
    a = b;
    b = t;
  }
}

__global__ void groups(const int* in, int* out, int n) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int sum = cg::reduce(tile, in[i], cg::plus<int>());
  int odd = 0;
  if (in[i] & 1) {
    cg::coalesced_group active = cg::coalesced_threads();
    odd = static_cast<int>(active.size()) * 100 + static_cast<int>(active.thread_rank());
  }
  block.sync();
  out[i] = sum * 10000 + odd + static_cast<int>(tile.meta_group_rank());
  (void)n;
}

int main() {
  Report report;
  int device, cooperative, per_sm;
  CUDA(cudaGetDevice(&device));
  CUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  report.check("device launches cooperatively", cooperative == 1);
  int n = 3000, steps = 5;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, ring, 128, 0));
  report.check("a block fits", per_sm >= 1);
  Random random(13);
  std::vector<unsigned> a(n), b(n);
  for (unsigned& v : a) v = random.next();
  unsigned* da = device_copy(a);
  unsigned* db = device_array<unsigned>(n);
  void* args[] = {&da, &db, &n, &steps};
  CUDA(cudaLaunchCooperativeKernel(ring, dim3(8), dim3(128), args, 0, nullptr));
  CUDA(cudaDeviceSynchronize());
  for (int s = 0; s < steps; ++s) {
    for (int i = 0; i < n; ++i) b[i] = a[(i + n - 1) % n] + 3u * a[i] + a[(i + 1) % n];
    a.swap(b);
  }
  const std::vector<unsigned> got = host_copy(steps % 2 ? db : da, n);
  report.check("grid sync", same(got, a), digest(got));

  const int m = 256;
  std::vector<int> in(m), expected(m);
  for (int& v : in) v = static_cast<int>(random.next() % 50);
  for (int i = 0; i < m; ++i) {
    int sum = 0, odd = 0, rank = 0;
    for (int j = 0; j < 8; ++j) sum += in[(i & ~7) + j];
    for (int j = 0; j < 32; ++j) {
      const int k = (i & ~31) + j;
      odd += in[k] & 1;
      rank += k < i ? in[k] & 1 : 0;
    }
    expected[i] = sum * 10000 + (in[i] & 1 ? odd * 100 + rank : 0) + (i % 128) / 8;
  }
  int* d_in = device_copy(in);
  int* d_out = device_array<int>(m);
  groups<<<2, 128>>>(d_in, d_out, m);
  const std::vector<int> out = host_copy(d_out, m);
  report.check("tiles and coalesced groups", same(out, expected), digest(out));

  // More blocks than can be resident at once must be refused, not hang.
  int sms;
  CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const cudaError_t refused =
      cudaLaunchCooperativeKernel(ring, dim3(per_sm * sms + 1), dim3(128), args, 0, nullptr);
  report.check("too many blocks are refused", refused == cudaErrorCooperativeLaunchTooLarge);
  cudaGetLastError();
  return report.finish();
}
