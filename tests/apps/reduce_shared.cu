// Tree reduction in shared memory, two passes, in float, double and int; the host adds in the same order, bit
// for bit.
#include "check.h"

template <typename T>
__global__ void reduce(const T* in, T* out, int n) {
  __shared__ T part[256];
  const int tid = threadIdx.x;
  T sum = 0;
  for (int i = blockIdx.x * 256 + tid; i < n; i += gridDim.x * 256) sum += in[i];
  part[tid] = sum;
  __syncthreads();
  for (int stride = 128; stride > 0; stride >>= 1) {
    if (tid < stride) part[tid] += part[tid + stride];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = part[0];
}

template <typename T>
std::vector<T> reduce_host(const std::vector<T>& in, int blocks) {
  std::vector<T> out(blocks);
  for (int b = 0; b < blocks; ++b) {
    T part[256];
    for (int t = 0; t < 256; ++t) {
      T sum = 0;
      for (size_t i = static_cast<size_t>(b) * 256 + t; i < in.size(); i += static_cast<size_t>(blocks) * 256)
        sum += in[i];
      part[t] = sum;
    }
    for (int stride = 128; stride > 0; stride >>= 1) {
      for (int t = 0; t < stride; ++t) part[t] += part[t + stride];
    }
    out[b] = part[0];
  }
  return out;
}

template <typename T, typename Make>
void run(Report& report, const char* name, int n, Make&& make) {
  std::vector<T> in(n);
  for (T& v : in) v = make();
  const int blocks = 24;
  const std::vector<T> expected = reduce_host(reduce_host(in, blocks), 1);
  T* d_in = device_copy(in);
  T* d_part = device_array<T>(blocks);
  T* d_out = device_array<T>(1);
  reduce<<<blocks, 256>>>(d_in, d_part, n);
  reduce<<<1, 256>>>(d_part, d_out, blocks);
  const std::vector<T> out = host_copy(d_out, 1);
  report.check(name, same(out, expected), digest(out));
  CUDA(cudaFree(d_in));
  CUDA(cudaFree(d_part));
  CUDA(cudaFree(d_out));
}

int main() {
  Report report;
  Random random(3);
  run<float>(report, "float", 60001, [&] { return random.unit() - 0.5f; });
  run<double>(report, "double", 40000, [&] { return random.unit() * 1e-3 - 0.5; });
  run<int>(report, "int", 50000, [&] { return static_cast<int>(random.next()); });
  run<unsigned long long>(report, "u64", 30000, [&] { return (1ull * random.next() << 31) ^ random.next(); });
  return report.finish();
}
