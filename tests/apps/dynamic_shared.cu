// Dynamic shared memory: several types carved from one block, the default limit, and the opt-in above it.
#include "check.h"

extern __shared__ unsigned char raw[];

__global__ void carve(const int* in, long long* out) {
  long long* wide = reinterpret_cast<long long*>(raw);
  short* narrow = reinterpret_cast<short*>(wide + blockDim.x);
  unsigned char* bytes = reinterpret_cast<unsigned char*>(narrow + blockDim.x);
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  wide[t] = static_cast<long long>(in[i]) * in[i];
  narrow[t] = static_cast<short>(in[i]);
  bytes[t] = static_cast<unsigned char>(in[i] >> 3);
  __syncthreads();
  const int other = blockDim.x - 1 - t;
  out[i] = wide[other] + narrow[(t + 1) % blockDim.x] - bytes[t ^ 1];
}

__global__ void large(unsigned* out, int words) {
  unsigned* w = reinterpret_cast<unsigned*>(raw);
  for (int i = threadIdx.x; i < words; i += blockDim.x) w[i] = i * 2654435761u;
  __syncthreads();
  unsigned sum = 0;
  for (int i = threadIdx.x; i < words; i += blockDim.x) sum ^= w[words - 1 - i] + i;
  atomicXor(out, sum);
}

int main() {
  Report report;
  const int block = 160, blocks = 9, n = block * blocks;
  Random random(12);
  std::vector<int> in(n);
  for (int& v : in) v = static_cast<int>(random.next() & 0xfffff);
  std::vector<long long> expected(n);
  for (int b = 0; b < blocks; ++b) {
    for (int t = 0; t < block; ++t) {
      const int* x = &in[b * block];
      const long long other = x[block - 1 - t];
      expected[b * block + t] =
          other * other + static_cast<short>(x[(t + 1) % block]) - static_cast<unsigned char>(x[t ^ 1] >> 3);
    }
  }
  int* d_in = device_copy(in);
  long long* d_out = device_array<long long>(n);
  carve<<<blocks, block, block*(sizeof(long long) + sizeof(short) + 1)>>>(d_in, d_out);
  CUDA(cudaGetLastError());
  const std::vector<long long> out = host_copy(d_out, n);
  report.check("carved", same(out, expected), digest(out));

  const int bytes = 60 * 1024, words = bytes / 4;
  unsigned* d_sum = device_array<unsigned>(1);
  CUDA(cudaMemset(d_sum, 0, 4));
  large<<<1, 256, bytes>>>(d_sum, words);
  report.check("60 KiB without opting in is refused", cudaGetLastError() == cudaErrorInvalidValue);
  CUDA(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  large<<<1, 256, bytes>>>(d_sum, words);
  CUDA(cudaGetLastError());
  unsigned want = 0;
  for (int t = 0; t < 256; ++t) {
    unsigned sum = 0;
    for (int i = t; i < words; i += 256) sum ^= (words - 1 - i) * 2654435761u + i;
    want ^= sum;
  }
  const unsigned got = host_copy(d_sum, 1)[0];
  report.check("60 KiB", got == want, got);
  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, large));
  report.check("attribute reads back", attributes.maxDynamicSharedSizeBytes == bytes);
  return report.finish();
}
