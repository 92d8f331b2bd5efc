// Two communicators over the same ranks, used alternately on one stream: their order must be the program's on
// every rank. -DTWO_STREAMS: both on the side stream, in the same order.
#include "ranks.h"

namespace {
constexpr int kSize = 3072;
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 6);
  return run_ranks(a, [&](Rank& r) {
    float *x = upload(ramp(kSize, 1.0f + r.rank)), *y = upload(ramp(kSize, 2.0f)),
          *z = upload(ramp(kSize, 0.5f));
    float* gathered = zeros(static_cast<size_t>(kSize) * r.ranks);
    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < a.iterations; ++i) {
      cudaStream_t s = r.compute;
#ifdef TWO_STREAMS
      s = r.side;
      CHECK(cudaEventRecord(fork, r.compute));
      CHECK(cudaStreamWaitEvent(s, fork, 0));
#endif
      NCCL(ncclAllReduce(x, x, kSize, ncclFloat, ncclMax, r.comm, s));
      NCCL(ncclAllGather(y, gathered, kSize, ncclFloat, r.second, s));
      compute(z, z, 0.001f, kSize, 40, r.compute);
#ifdef TWO_STREAMS
      CHECK(cudaEventRecord(join, r.side));
      CHECK(cudaStreamWaitEvent(r.compute, join, 0));
#endif
      compute(x, z, 0.01f, kSize, 2, r.compute);
      compute(y, gathered, 0.01f, kSize, 2, r.compute);
    }
    CHECK(cudaStreamSynchronize(r.compute));
    r.result = digest(x, kSize) * 31 + digest(gathered, static_cast<size_t>(kSize) * r.ranks);
  });
}
