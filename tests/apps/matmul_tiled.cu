// C = A B with shared-memory tiles, edges included; fused multiply-adds in the same order on the host.
#include "check.h"

constexpr int kTile = 16;

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float ta[kTile][kTile], tb[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += kTile) {
    ta[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0.0f;
    tb[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum = fmaf(ta[threadIdx.y][i], tb[i][threadIdx.x], sum);
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

int main() {
  const int m = 93, n = 121, k = 70;
  Random random(6);
  std::vector<float> a(m * k), b(k * n), expected(m * n);
  for (float& v : a) v = random.unit() - 0.5f;
  for (float& v : b) v = random.unit() * 4.0f;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum = fmaf(a[i * k + x], b[x * n + j], sum);
      expected[i * n + j] = sum;
    }
  }
  float* da = device_copy(a);
  float* db = device_copy(b);
  float* dc = device_array<float>(m * n);
  const dim3 block(kTile, kTile), grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  matmul<<<grid, block>>>(da, db, dc, m, n, k);
  CUDA(cudaGetLastError());
  const std::vector<float> c = host_copy(dc, m * n);
  Report report;
  report.check("matmul", same(c, expected), digest(c));
  return report.finish();
}
