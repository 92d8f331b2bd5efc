// Code that CUB and Thrust generate.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <cub/cub.cuh>

struct Square {
  __device__ float operator()(float x) const { return x * x; }
};
float use(thrust::device_vector<float>& v, thrust::device_vector<int>& keys) {
  thrust::transform(v.begin(), v.end(), v.begin(), Square());
  thrust::inclusive_scan(v.begin(), v.end(), v.begin());
  thrust::sort_by_key(keys.begin(), keys.end(), v.begin());
  return thrust::reduce(v.begin(), v.end());
}
__global__ void block_scan(int* data) {
  using Scan = cub::BlockScan<int, 128>;
  __shared__ typename Scan::TempStorage storage;
  int x = data[threadIdx.x];
  Scan(storage).InclusiveSum(x, x);
  data[threadIdx.x] = x;
}
