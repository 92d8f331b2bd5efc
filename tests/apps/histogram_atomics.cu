// Histogram with shared and global atomics, and the other atomic operations on commuting data.
#include "check.h"

__global__ void histogram(const unsigned char* data, int n, unsigned* bins) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (local[i]) atomicAdd(&bins[i], local[i]);
  }
}

struct Totals {
  int min, max;
  unsigned all_or, all_and, all_xor, wraps;
  unsigned long long sum, max64;
  double dsum;
  unsigned taken[64];
};

__global__ void totals(const int* v, int n, Totals* t) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicMin(&t->min, v[i]);
  atomicMax(&t->max, v[i]);
  atomicOr(&t->all_or, static_cast<unsigned>(v[i]));
  atomicAnd(&t->all_and, static_cast<unsigned>(v[i]) | 0x80u);
  atomicXor(&t->all_xor, static_cast<unsigned>(v[i]));
  atomicInc(&t->wraps, 999u);
  atomicAdd(&t->sum, static_cast<unsigned long long>(v[i] & 0xffff));
  atomicMax(&t->max64, static_cast<unsigned long long>(v[i] & 0xffffff) << 20);
  atomicAdd(&t->dsum, static_cast<double>(v[i] & 0xff));  // exact: small integers
  // A compare-and-swap loop and an exchange; the results do not depend on the order.
  unsigned* slot = &t->taken[i & 63];
  unsigned seen = *slot;
  while (true) {
    const unsigned was = atomicCAS(slot, seen, seen + 3u);
    if (was == seen) break;
    seen = was;
  }
}

int main() {
  Report report;
  Random random(4);
  const int n = 60000;
  std::vector<unsigned char> data(n);
  std::vector<unsigned> expected(256, 0);
  for (auto& d : data) {
    d = static_cast<unsigned char>((random.next() & 0xff) * (random.next() & 0xff) >> 8);
    ++expected[d];
  }
  unsigned char* d_data = device_copy(data);
  unsigned* d_bins = device_array<unsigned>(256);
  CUDA(cudaMemset(d_bins, 0, 256 * sizeof(unsigned)));
  histogram<<<12, 192>>>(d_data, n, d_bins);
  const std::vector<unsigned> bins = host_copy(d_bins, 256);
  report.check("histogram", same(bins, expected), digest(bins));

  const int m = 5000;
  std::vector<int> v(m);
  Totals t{}, want{};
  t.min = want.min = 1 << 30;
  t.max = want.max = -(1 << 30);
  t.all_and = want.all_and = ~0u;
  for (int& x : v) {
    x = static_cast<int>(random.next());
    if (x < want.min) want.min = x;
    if (x > want.max) want.max = x;
    want.all_or |= static_cast<unsigned>(x);
    want.all_and &= static_cast<unsigned>(x) | 0x80u;
    want.all_xor ^= static_cast<unsigned>(x);
    want.wraps = want.wraps >= 999u ? 0 : want.wraps + 1;
    want.sum += x & 0xffff;
    const unsigned long long big = static_cast<unsigned long long>(x & 0xffffff) << 20;
    if (big > want.max64) want.max64 = big;
    want.dsum += x & 0xff;
  }
  for (int i = 0; i < m; ++i) want.taken[i & 63] += 3;
  int* d_v = device_copy(v);
  Totals* d_t = device_array<Totals>(1);
  CUDA(cudaMemcpy(d_t, &t, sizeof t, cudaMemcpyHostToDevice));
  totals<<<(m + 127) / 128, 128>>>(d_v, m, d_t);
  CUDA(cudaMemcpy(&t, d_t, sizeof t, cudaMemcpyDeviceToHost));
  report.check("totals", std::memcmp(&t, &want, sizeof t) == 0, digest(&t, sizeof t));
  return report.finish();
}
