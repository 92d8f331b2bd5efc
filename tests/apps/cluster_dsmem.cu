// Thread-block clusters: a histogram spread over the distributed shared memory of four blocks, launched with
// a cluster attribute. PTX for 9.0.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int kCluster = 4, kLocal = 16, kBins = kCluster * kLocal;

__global__ void histogram(const int* data, int n, int* bins) {
  __shared__ int local[kLocal];
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x < kLocal) local[threadIdx.x] = 0;
  cluster.sync();
  for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads()) {
    const int bin = data[i];
    int* remote = cluster.map_shared_rank(local, bin / kLocal);
    atomicAdd(&remote[bin % kLocal], 1);
  }
  cluster.sync();
  if (threadIdx.x < kLocal) bins[cluster.block_rank() * kLocal + threadIdx.x] = local[threadIdx.x];
}

int main() {
  Report report;
  const int n = 8000;
  Random random(35);
  std::vector<int> data(n), want(kBins, 0);
  for (int& v : data) {
    v = static_cast<int>(random.next() % kBins);
    ++want[v];
  }
  int* bins = device_array<int>(kBins);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kCluster);
  config.blockDim = dim3(128);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = kCluster;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  CUDA(cudaOccupancyMaxActiveClusters(&clusters, histogram, &config));
  report.check("a cluster fits", clusters >= 1);
  CUDA(cudaLaunchKernelEx(&config, histogram, static_cast<const int*>(device_copy(data)), n, bins));
  const std::vector<int> got = host_copy(bins, kBins);
  report.check("histogram", same(got, want), digest(got));
  config.gridDim = dim3(kCluster + 1);
  const cudaError_t odd = cudaLaunchKernelEx(&config, histogram, static_cast<const int*>(nullptr), 0, bins);
  report.check("grid must be whole clusters", odd != cudaSuccess);
  cudaGetLastError();
  return report.finish();
}
