// Device printf reaches stdout at the next synchronisation; a failed device assert is a sticky error.
#undef NDEBUG
#include <cassert>

#include "check.h"

__global__ void speak(int first, double x) {
  if (threadIdx.x != 0) return;
  const char* word = first > 40 ? "large" : "small";
  const int n = printf("d=%d u=%u x=%08x c=%c s=%s f=%.3f e=%10.2e g=%g lld=%lld %%\n", -first, 7u, 0xbeef,
                       'q', word, x, x * 1e6, x / 3, 1234567890123ll);
  printf("arguments: %d\n", n);
  printf("plain\n");
}
__global__ void require(const int* v, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) assert(v[i] < 90);
}

int main() {
  Report report;
  speak<<<1, 32>>>(42, 2.5);
  CUDA(cudaGetLastError());
  CUDA(cudaDeviceSynchronize());
  std::fflush(stdout);
  std::vector<int> v(100);
  for (int i = 0; i < 100; ++i) v[i] = i;
  int* d = device_copy(v);
  require<<<1, 64>>>(d, 64);
  report.check("true assertions pass", cudaDeviceSynchronize() == cudaSuccess);
  require<<<4, 32>>>(d, 100);
  const cudaError_t failed = cudaDeviceSynchronize();
  std::printf("assert: %s\n", cudaGetErrorName(failed));
  report.check("assertion fails", failed == cudaErrorAssert);
  report.check("and is sticky",
               cudaMalloc(&d, 4) == cudaErrorAssert && cudaDeviceSynchronize() == cudaErrorAssert);
  return report.finish();
}
