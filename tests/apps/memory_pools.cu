// Stream-ordered allocation: the default pool, an own pool, attributes, reuse, trimming.
#include "check.h"

__global__ void fill(unsigned* v, int n, unsigned k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] = i ^ k;
}
__global__ void sum(const unsigned* v, int n, unsigned long long* out) {
  unsigned long long s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += v[i];
  atomicAdd(out, s);
}

int main() {
  Report report;
  int supported;
  CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  report.check("pools supported", supported == 1);
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  unsigned long long* out = device_array<unsigned long long>(1);
  const int n = 10000;
  CUDA(cudaMemset(out, 0, sizeof *out));
  unsigned long long want = 0;
  for (unsigned k = 0; k < 8; ++k) {
    unsigned* v;
    CUDA(cudaMallocAsync(&v, n * sizeof(unsigned), stream));
    fill<<<(n + 255) / 256, 256, 0, stream>>>(v, n, k);
    sum<<<1, 256, 0, stream>>>(v, n, out);
    CUDA(cudaFreeAsync(v, stream));
    for (int i = 0; i < n; ++i) want += i ^ k;
  }
  CUDA(cudaStreamSynchronize(stream));
  report.check("eight rounds", host_copy(out, 1)[0] == want, want);

  cudaMemPool_t pool;
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = 0;
  CUDA(cudaMemPoolCreate(&pool, &props));
  uint64_t keep = ~0ull;
  CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  unsigned *p, *q;
  CUDA(cudaMallocFromPoolAsync(&p, 3 << 20, pool, stream));
  CUDA(cudaMallocFromPoolAsync(&q, 1 << 20, pool, stream));
  uint64_t used = 0, reserved = 0;
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  report.check("four MiB in use", used == 4u << 20 && reserved >= used);
  CUDA(cudaMemsetAsync(p, 0x5a, 3 << 20, stream));
  CUDA(cudaMemcpyAsync(q, p, 1 << 20, cudaMemcpyDeviceToDevice, stream));
  std::vector<unsigned char> back(1 << 20);
  CUDA(cudaMemcpyAsync(back.data(), q, back.size(), cudaMemcpyDeviceToHost, stream));
  CUDA(cudaFreeAsync(p, stream));
  CUDA(cudaFreeAsync(q, stream));
  CUDA(cudaStreamSynchronize(stream));
  bool ok = true;
  for (unsigned char c : back) ok &= c == 0x5a;
  report.check("set and copy", ok);
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  report.check("kept below the threshold", used == 0 && reserved >= 4u << 20);
  CUDA(cudaMemPoolTrimTo(pool, 0));
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  report.check("trimmed", reserved == 0);
  CUDA(cudaMemPoolDestroy(pool));
  // A pool allocation may be freed by the plain call as well.
  CUDA(cudaMallocAsync(&p, 4096, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaFree(p));
  CUDA(cudaStreamDestroy(stream));
  return report.finish();
}
