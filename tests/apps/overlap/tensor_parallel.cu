// Tensor-parallel forward pass: every layer's partial sums are reduced and used at once. Nothing can be
// gained by moving the reduction; nothing may be lost either. -DTWO_STREAMS: the same with a side stream,
// fork and join around each reduction.
#include "ranks.h"

namespace {
constexpr int kLayers = 8, kSize = 2048;
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 4);
  return run_ranks(a, [&](Rank& r) {
    float *weight[kLayers], *x = upload(ramp(kSize, 1)), *partial = zeros(kSize);
    for (int l = 0; l < kLayers; ++l) weight[l] = upload(ramp(kSize, 0.3f + 0.1f * r.rank + 0.01f * l));
    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < a.iterations; ++i) {
      for (int l = 0; l < kLayers; ++l) {
        CHECK(cudaMemcpyAsync(partial, x, kSize * sizeof(float), cudaMemcpyDeviceToDevice, r.compute));
        compute(partial, weight[l], 0.05f, kSize, 12, r.compute);
        cudaStream_t s = r.compute;
#ifdef TWO_STREAMS
        s = r.side;
        CHECK(cudaEventRecord(fork, r.compute));
        CHECK(cudaStreamWaitEvent(r.side, fork, 0));
#endif
        NCCL(ncclAllReduce(partial, x, kSize, ncclFloat, ncclSum, r.comm, s));
#ifdef TWO_STREAMS
        CHECK(cudaEventRecord(join, r.side));
        CHECK(cudaStreamWaitEvent(r.compute, join, 0));
#endif
        compute(x, weight[l], 0.01f, kSize, 12, r.compute);
      }
    }
    CHECK(cudaStreamSynchronize(r.compute));
    r.result = digest(x, kSize);
  });
}
