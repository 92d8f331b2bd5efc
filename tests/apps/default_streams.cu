// The default stream, with several host threads. Built twice: with the legacy default stream, which orders
// itself with all blocking streams, and with --default-stream per-thread, where the program must order
// threads by events itself.
#include <thread>

#include "check.h"

__global__ void step(unsigned* v, int n, unsigned k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] = (v[i] ^ k) * 16777619u;
}

void host_step(std::vector<unsigned>& v, unsigned k) {
  for (unsigned& x : v) x = (x ^ k) * 16777619u;
}

int main() {
  Report report;
  const int n = 4000, grid = (n + 127) / 128;
  std::vector<unsigned> host(n, 1u);
  unsigned* v = device_copy(host);
  cudaStream_t blocking;
  CUDA(cudaStreamCreate(&blocking));

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  const char* flavour = "per-thread";
  // Nothing orders the per-thread default stream with `blocking`: an event does.
  cudaEvent_t ready;
  CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  auto order = [&](cudaStream_t from, cudaStream_t to) {
    CUDA(cudaEventRecord(ready, from));
    CUDA(cudaStreamWaitEvent(to, ready, 0));
  };
  CUDA(cudaDeviceSynchronize());
#else
  const char* flavour = "legacy";
  auto order = [](cudaStream_t, cudaStream_t) {};  // implicit with a blocking stream
#endif
  for (unsigned k = 0; k < 6; ++k) {
    cudaStream_t from = k % 2 ? nullptr : blocking;
    cudaStream_t to = k % 2 ? blocking : nullptr;
    step<<<grid, 128, 0, from>>>(v, n, k);
    order(from, to);
    host_step(host, k);
  }
  CUDA(cudaDeviceSynchronize());
  std::vector<unsigned> got = host_copy(v, n);
  std::printf("%s default stream\n", flavour);
  report.check("two streams in turn", same(got, host), digest(got));

  // Each thread has its own buffer and only uses the default stream; no thread may disturb another.
  const int threads = 4;
  std::vector<unsigned> result[threads];
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      unsigned* mine = device_array<unsigned>(n);
      CUDA(cudaMemsetAsync(mine, t, n * sizeof(unsigned), 0));
      for (unsigned k = 0; k < 5; ++k) step<<<grid, 128>>>(mine, n, k + 100u * t);
      result[t].resize(n);
      CUDA(cudaMemcpyAsync(result[t].data(), mine, n * sizeof(unsigned), cudaMemcpyDeviceToHost, 0));
      CUDA(cudaStreamSynchronize(0));
      CUDA(cudaFree(mine));
    });
  }
  for (auto& t : pool) t.join();
  for (int t = 0; t < threads; ++t) {
    std::vector<unsigned> want(n, 0x01010101u * t);
    for (unsigned k = 0; k < 5; ++k) host_step(want, k + 100u * t);
    report.check("thread", same(result[t], want), digest(result[t]));
  }
  // The explicit handles name the same two streams in both builds.
  step<<<grid, 128, 0, cudaStreamLegacy>>>(v, n, 9);
  CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  step<<<grid, 128, 0, cudaStreamPerThread>>>(v, n, 10);
  CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  host_step(host, 9);
  host_step(host, 10);
  got = host_copy(v, n);
  report.check("explicit handles", same(got, host), digest(got));
  return report.finish();
}
