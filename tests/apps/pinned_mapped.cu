// Pinned, mapped and registered host memory used directly by kernels; pointer attributes of each kind.
#include "check.h"

__global__ void twice(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i] + 1;
}

int main() {
  Report report;
  const int n = 5000;
  int *mapped, *mapped_device;
  CUDA(cudaHostAlloc(&mapped, n * sizeof(int), cudaHostAllocMapped | cudaHostAllocPortable));
  CUDA(cudaHostGetDevicePointer(&mapped_device, mapped, 0));
  std::vector<int> registered(n + 4096), expected(n);
  int* aligned = registered.data() + 7;
  CUDA(cudaHostRegister(aligned, n * sizeof(int), cudaHostRegisterMapped));
  int* aligned_device;
  CUDA(cudaHostGetDevicePointer(&aligned_device, aligned, 0));
  for (int i = 0; i < n; ++i) {
    mapped[i] = i * 3;
    expected[i] = 2 * mapped[i] + 1;
  }
  twice<<<(n + 63) / 64, 64>>>(mapped_device, aligned_device, n);
  CUDA(cudaDeviceSynchronize());
  report.check("host to registered host", std::memcmp(aligned, expected.data(), n * sizeof(int)) == 0,
               digest(aligned, n * sizeof(int)));

  int* device = device_array<int>(n);
  CUDA(cudaMemcpyAsync(device, aligned, n * sizeof(int), cudaMemcpyDefault, 0));
  twice<<<(n + 63) / 64, 64>>>(device, mapped_device, n);
  CUDA(cudaDeviceSynchronize());
  for (int& v : expected) v = 2 * v + 1;
  report.check("device to mapped host", std::memcmp(mapped, expected.data(), n * sizeof(int)) == 0,
               digest(mapped, n * sizeof(int)));

  cudaPointerAttributes a;
  CUDA(cudaPointerGetAttributes(&a, mapped + 10));
  report.check("mapped is host memory", a.type == cudaMemoryTypeHost && a.hostPointer == mapped + 10);
  CUDA(cudaPointerGetAttributes(&a, aligned));
  report.check("registered is host memory", a.type == cudaMemoryTypeHost);
  CUDA(cudaPointerGetAttributes(&a, device));
  report.check("device memory", a.type == cudaMemoryTypeDevice && a.devicePointer == device);
  CUDA(cudaPointerGetAttributes(&a, &a));
  report.check("plain memory is unregistered", a.type == cudaMemoryTypeUnregistered);
  unsigned flags = 0;
  CUDA(cudaHostGetFlags(&flags, mapped));
  report.check("flags", (flags & cudaHostAllocMapped) != 0);
  CUDA(cudaHostUnregister(aligned));
  report.check("unregistering twice fails", cudaHostUnregister(aligned) == cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
  CUDA(cudaFreeHost(mapped));
  CUDA(cudaFree(device));
  return report.finish();
}
