// Unusual life: first call on a second thread, a device reset in the middle, work left pending, and a
// destructor of a global object that frees device memory after main has returned.
#include <thread>

#include "check.h"

__global__ void fill(int* p, int n, int v) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = v + i;
}

struct Global {
  int* memory = nullptr;
  ~Global() {
    // The runtime may already be going down here; either answer is fine, a crash is not.
    if (memory) cudaFree(memory);
    std::printf("destructor ran\n");
  }
} global;

int main() {
  Report report;
  const int n = 1000;
  std::vector<int> got;
  std::thread([&] {
    int* p = device_array<int>(n);
    fill<<<8, 128>>>(p, n, 7);
    got = host_copy(p, n);
    CUDA(cudaFree(p));
  }).join();
  report.check("first call on another thread", got[0] == 7 && got[n - 1] == 7 + n - 1);

  int* old = device_array<int>(n);
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  fill<<<8, 128, 0, stream>>>(old, n, 1);
  CUDA(cudaDeviceReset());
  report.check("old memory is gone", cudaMemset(old, 0, 4) != cudaSuccess);
  cudaGetLastError();
  int* fresh = device_array<int>(n);
  fill<<<8, 128>>>(fresh, n, 3);
  got = host_copy(fresh, n);
  report.check("a new context works", got[n - 1] == 3 + n - 1);

  global.memory = device_array<int>(n);
  CUDA(cudaStreamCreate(&stream));
  for (int i = 0; i < 20; ++i) fill<<<8, 128, 0, stream>>>(global.memory, n, i);
  return report.finish();  // with work pending and nothing freed
}
