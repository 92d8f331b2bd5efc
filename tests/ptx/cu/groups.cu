#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

__global__ void grid_wide(int* data) {
  cg::grid_group grid = cg::this_grid();
  data[grid.thread_rank()] += 1;
  grid.sync();
  data[grid.size() - 1 - grid.thread_rank()] *= 2;
}
__global__ void tiles(int* data) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int sum = cg::reduce(tile, data[threadIdx.x], cg::plus<int>());
  int prefix = cg::inclusive_scan(tile, sum);
  auto active = cg::coalesced_threads();
  data[threadIdx.x] = prefix + active.shfl(sum, 0) + tile.match_any(sum) + tile.ballot(sum > 3);
}
__global__ void copy_async(const int4* in, int4* out) {
  __shared__ int4 stage[128];
  cg::memcpy_async(cg::this_thread_block(), stage, in, sizeof(stage));
  cg::wait(cg::this_thread_block());
  out[threadIdx.x] = stage[127 - threadIdx.x];
}
__global__ void barriers(int* data) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  data[threadIdx.x] += 1;
  barrier.arrive_and_wait();
  cuda::atomic_ref<int, cuda::thread_scope_system> flag(data[0]);
  flag.fetch_add(data[255 - threadIdx.x], cuda::memory_order_acq_rel);
}
#if __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) clusters(int* data) {
  __shared__ int mine;
  cg::cluster_group cluster = cg::this_cluster();
  mine = data[threadIdx.x];
  cluster.sync();
  data[threadIdx.x] = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1);
  cluster.sync();
}
#endif
