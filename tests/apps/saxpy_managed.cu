// y = a x + y in managed memory, with advice and prefetch; the host writes before and reads after.
#include "check.h"

__global__ void saxpy(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = fmaf(a, x[i], y[i]);
}

int main() {
  const int n = 1 << 16;
  Report report;
  float *x, *y;
  CUDA(cudaMallocManaged(&x, n * sizeof(float)));
  CUDA(cudaMallocManaged(&y, n * sizeof(float)));
  std::vector<float> expected(n);
  Random random(2);
  for (int i = 0; i < n; ++i) {
    x[i] = random.unit();
    y[i] = random.unit();
    expected[i] = fmaf(2.5f, x[i], y[i]);
  }
  cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  cudaMemLocation host{cudaMemLocationTypeHost, 0};
  CUDA(cudaMemAdvise(x, n * sizeof(float), cudaMemAdviseSetReadMostly, device));
  CUDA(cudaMemPrefetchAsync(x, n * sizeof(float), device, 0));
  saxpy<<<32, 128>>>(2.5f, x, y, n);
  CUDA(cudaMemPrefetchAsync(y, n * sizeof(float), host, 0));
  CUDA(cudaDeviceSynchronize());
  report.check("first pass", std::memcmp(y, expected.data(), n * sizeof(float)) == 0,
               digest(y, n * sizeof(float)));

  // The host changes managed data between launches: the second kernel must see it.
  for (int i = 0; i < n; i += 7) {
    y[i] = -1.0f;
    expected[i] = -1.0f;
  }
  for (int i = 0; i < n; ++i) expected[i] = fmaf(-0.5f, x[i], expected[i]);
  saxpy<<<7, 96>>>(-0.5f, x, y, n);
  CUDA(cudaDeviceSynchronize());
  report.check("second pass", std::memcmp(y, expected.data(), n * sizeof(float)) == 0,
               digest(y, n * sizeof(float)));

  cudaPointerAttributes attributes;
  CUDA(cudaPointerGetAttributes(&attributes, x));
  report.check("pointer is managed", attributes.type == cudaMemoryTypeManaged &&
                                         attributes.hostPointer == x && attributes.devicePointer == x);
  CUDA(cudaFree(x));
  CUDA(cudaFree(y));
  return report.finish();
}
