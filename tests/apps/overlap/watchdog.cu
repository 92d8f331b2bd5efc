// A second host thread polls an event recorded behind each collective, as training frameworks do, and counts
// completions. -DTWO_STREAMS: the collective on a side stream, the polled event with it.
#include <atomic>

#include "ranks.h"

namespace {
constexpr int kSize = 4096;
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 6);
  return run_ranks(a, [&](Rank& r) {
    float *g = upload(ramp(kSize, 1.0f + r.rank)), *x = upload(ramp(kSize, 2.0f));
    std::vector<cudaEvent_t> done(a.iterations);
    for (auto& e : done) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    cudaEvent_t fork;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaDeviceSynchronize());
    std::atomic<int> recorded{0};
    int completed = 0;
    std::thread watchdog([&] {
      CHECK(cudaSetDevice(r.rank));
      while (completed < a.iterations) {
        if (completed >= recorded.load()) {
          std::this_thread::yield();
          continue;
        }
        const cudaError_t state = cudaEventQuery(done[completed]);
        if (state == cudaSuccess)
          ++completed;
        else if (state != cudaErrorNotReady)
          CHECK(state);
      }
    });
    for (int i = 0; i < a.iterations; ++i) {
      cudaStream_t s = r.compute;
#ifdef TWO_STREAMS
      s = r.side;
      CHECK(cudaEventRecord(fork, r.compute));
      CHECK(cudaStreamWaitEvent(s, fork, 0));
#endif
      NCCL(ncclAllReduce(g, g, kSize, ncclFloat, ncclSum, r.comm, s));
      CHECK(cudaEventRecord(done[i], s));
      recorded.store(i + 1);
      compute(x, x, 0.001f, kSize, 40, r.compute);
#ifdef TWO_STREAMS
      CHECK(cudaStreamWaitEvent(r.compute, done[i], 0));
#endif
      compute(g, x, 0.001f / r.ranks, kSize, 2, r.compute);
    }
    CHECK(cudaStreamSynchronize(r.compute));
    watchdog.join();
    r.result = digest(g, kSize) * 31 + completed;
  });
}
