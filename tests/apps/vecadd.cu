// The first CUDA program everybody writes.
#include "check.h"

__global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main() {
  const int n = 100003;  // no multiple of the block size
  Random random(1);
  std::vector<float> a(n), b(n), expected(n);
  for (int i = 0; i < n; ++i) {
    a[i] = random.unit();
    b[i] = random.unit() - 0.5f;
    expected[i] = a[i] + b[i];
  }
  float* da = device_copy(a);
  float* db = device_copy(b);
  float* dc = device_array<float>(n);
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  CUDA(cudaGetLastError());
  CUDA(cudaDeviceSynchronize());
  const std::vector<float> c = host_copy(dc, n);
  CUDA(cudaFree(da));
  CUDA(cudaFree(db));
  CUDA(cudaFree(dc));
  Report report;
  report.check("c = a + b", same(c, expected), digest(c));
  return report.finish();
}
