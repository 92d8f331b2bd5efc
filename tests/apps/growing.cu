// Allocates block after block, fills each, and sums all of them at the end: dies of an exhausted device
// unless somebody helps.
//   growing [blocks of 8 MiB]
#include "check.h"

__global__ void fill(unsigned* p, unsigned n, unsigned seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = seed * 2654435761u + i;
}

__global__ void sum(const unsigned* p, unsigned n, unsigned long long* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, static_cast<unsigned long long>(p[i]));
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 8;
  const unsigned n = 4096;
  std::vector<unsigned*> blocks;
  unsigned long long *total, result = 0, expected = 0;
  CUDA(cudaMalloc(&total, sizeof *total));
  CUDA(cudaMemset(total, 0, sizeof *total));
  for (int b = 0; b < count; ++b) {
    unsigned* p = nullptr;
    CUDA(cudaMalloc(&p, size_t{8} << 20));
    blocks.push_back(p);
    fill<<<n / 256, 256>>>(p, n, static_cast<unsigned>(b));
    for (unsigned i = 0; i < n; ++i) expected += static_cast<unsigned>(b) * 2654435761u + i;
  }
  for (unsigned* p : blocks) sum<<<n / 256, 256>>>(p, n, total);
  CUDA(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost));
  Report report;
  report.check("sum of all blocks", result == expected, result);
  bool plain = true;
  for (unsigned* p : blocks) {
    cudaPointerAttributes a{};
    CUDA(cudaPointerGetAttributes(&a, p + 5));
    plain = plain && a.type == cudaMemoryTypeDevice && a.device == 0;
  }
  report.check("every block is device memory", plain);
  for (unsigned* p : blocks) CUDA(cudaFree(p));
  report.check("freeing twice is refused", cudaFree(blocks.back()) == cudaErrorInvalidValue);
  cudaGetLastError();
  CUDA(cudaDeviceSynchronize());
  return report.finish();
}
