// Takes device memory until there is none, handles the error as a careful program does, and goes on.
#include "check.h"

__global__ void touch(unsigned char* p, size_t bytes) {
  if (threadIdx.x == 0) {
    p[0] = 1;
    p[bytes - 1] = 2;
  }
}

int main() {
  Report report;
  size_t free_before, total, free_now;
  CUDA(cudaMemGetInfo(&free_before, &total));
  report.check("free memory is part of the total", free_before > 0 && free_before <= total);
  const size_t chunk = free_before / 5 & ~size_t{(2 << 20) - 1};
  std::vector<unsigned char*> taken;
  cudaError_t status = cudaSuccess;
  while (taken.size() < 10) {
    unsigned char* p = nullptr;
    status = cudaMalloc(&p, chunk);
    if (status != cudaSuccess) {
      report.check("pointer is left alone", p == nullptr);
      break;
    }
    taken.push_back(p);
    touch<<<1, 32>>>(p, chunk);
  }
  report.check("memory ran out",
               status == cudaErrorMemoryAllocation && taken.size() >= 4 && taken.size() <= 5);
  report.check("the error is the last one, once",
               cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
  CUDA(cudaDeviceSynchronize());
  unsigned char ends[2];
  bool ok = true;
  for (unsigned char* p : taken) {
    CUDA(cudaMemcpy(&ends[0], p, 1, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(&ends[1], p + chunk - 1, 1, cudaMemcpyDeviceToHost));
    ok &= ends[0] == 1 && ends[1] == 2;
  }
  report.check("what was allocated is intact", ok);
  CUDA(cudaMemGetInfo(&free_now, &total));
  report.check("little is left", free_now < chunk);
  for (unsigned char* p : taken) CUDA(cudaFree(p));
  CUDA(cudaMemGetInfo(&free_now, &total));
  report.check("all came back", free_now + (64 << 20) >= free_before);
  unsigned char* again = nullptr;
  CUDA(cudaMalloc(&again, chunk));
  CUDA(cudaFree(again));
  report.check("more than the device has",
               cudaMalloc(&again, total + (1 << 20)) == cudaErrorMemoryAllocation);
  cudaGetLastError();
  return report.finish();
}
