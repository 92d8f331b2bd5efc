// Work on every device, peer access and peer copies between neighbours. With one device it says so and
// passes.
#include "check.h"

__global__ void fill(unsigned* v, int n, unsigned seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] = (i + seed) * 2654435761u;
}
__global__ void add_from(unsigned* v, const unsigned* peer, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] += peer[i];
}

int main() {
  Report report;
  int devices;
  CUDA(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    std::printf("one device: peer copies are not tried\n");
    return report.finish();
  }
  std::printf("%d devices\n", devices);
  const int n = 10000;
  std::vector<unsigned*> buffer(devices), inbox(devices);
  for (int d = 0; d < devices; ++d) {
    CUDA(cudaSetDevice(d));
    CUDA(cudaMalloc(&buffer[d], n * sizeof(unsigned)));
    CUDA(cudaMalloc(&inbox[d], n * sizeof(unsigned)));
    fill<<<(n + 255) / 256, 256>>>(buffer[d], n, 1000u * d);
    CUDA(cudaGetLastError());
    int current = -1;
    CUDA(cudaGetDevice(&current));
    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, buffer[d]));
    if (current != d || attributes.device != d) report.check("current device", false);
  }
  for (int d = 0; d < devices; ++d) {
    CUDA(cudaSetDevice(d));
    CUDA(cudaDeviceSynchronize());
  }
  for (int d = 0; d < devices; ++d) {
    const int from = (d + 1) % devices;
    CUDA(cudaSetDevice(d));
    CUDA(cudaMemcpyPeerAsync(inbox[d], d, buffer[from], from, n * sizeof(unsigned), 0));
    CUDA(cudaDeviceSynchronize());
    const std::vector<unsigned> got = host_copy(inbox[d], n);
    std::vector<unsigned> want(n);
    for (int i = 0; i < n; ++i) want[i] = (i + 1000u * from) * 2654435761u;
    report.check("peer copy", same(got, want), digest(got));
  }
  for (int d = 0; d < devices; ++d) {
    const int from = (d + 1) % devices;
    int can = 0;
    CUDA(cudaDeviceCanAccessPeer(&can, d, from));
    CUDA(cudaSetDevice(d));
    if (!can) {
      std::printf("device %d cannot reach %d\n", d, from);
      continue;
    }
    CUDA(cudaDeviceEnablePeerAccess(from, 0));
    report.check("enabling twice is an error",
                 cudaDeviceEnablePeerAccess(from, 0) == cudaErrorPeerAccessAlreadyEnabled);
    cudaGetLastError();
    add_from<<<(n + 127) / 128, 128>>>(inbox[d], buffer[from], n);
    CUDA(cudaDeviceSynchronize());
    const std::vector<unsigned> got = host_copy(inbox[d], n);
    bool ok = true;
    for (int i = 0; i < n; ++i) ok &= got[i] == 2u * ((i + 1000u * from) * 2654435761u);
    report.check("kernel reads the peer", ok, digest(got));
    CUDA(cudaDeviceDisablePeerAccess(from));
  }
  report.check("no such device", cudaSetDevice(devices) == cudaErrorInvalidDevice);
  return report.finish();
}
