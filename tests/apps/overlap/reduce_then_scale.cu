// All gradients are reduced one after another on the compute stream, and only then scaled and applied:
// between a reduction and its first use lie all the later ones. -DTWO_STREAMS: reductions on a side stream,
// each joined before its own use.
#include "ranks.h"

namespace {
constexpr int kTensors = 8, kSize = 2048;
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 4);
  return run_ranks(a, [&](Rank& r) {
    float *weight[kTensors], *gradient[kTensors], *input = upload(ramp(kSize, 1.0f + r.rank));
    cudaEvent_t made[kTensors], reduced[kTensors];
    for (int t = 0; t < kTensors; ++t) {
      weight[t] = upload(ramp(kSize, 0.5f + t));
      gradient[t] = zeros(kSize);
      CHECK(cudaEventCreateWithFlags(&made[t], cudaEventDisableTiming));
      CHECK(cudaEventCreateWithFlags(&reduced[t], cudaEventDisableTiming));
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < a.iterations; ++i) {
      for (int t = 0; t < kTensors; ++t) {
        compute(gradient[t], input, 0.01f * (t + 1), kSize, 16, r.compute);
#ifdef TWO_STREAMS
        CHECK(cudaEventRecord(made[t], r.compute));
        CHECK(cudaStreamWaitEvent(r.side, made[t], 0));
        NCCL(ncclAllReduce(gradient[t], gradient[t], kSize, ncclFloat, ncclSum, r.comm, r.side));
        CHECK(cudaEventRecord(reduced[t], r.side));
#endif
      }
#ifndef TWO_STREAMS
      for (int t = 0; t < kTensors; ++t)
        NCCL(ncclAllReduce(gradient[t], gradient[t], kSize, ncclFloat, ncclSum, r.comm, r.compute));
#endif
      for (int t = 0; t < kTensors; ++t) {
#ifdef TWO_STREAMS
        CHECK(cudaStreamWaitEvent(r.compute, reduced[t], 0));
#endif
        compute(gradient[t], weight[t], 1.0f / r.ranks, kSize, 8, r.compute);
        compute(weight[t], gradient[t], -0.001f, kSize, 8, r.compute);
      }
    }
    CHECK(cudaStreamSynchronize(r.compute));
    for (float* w : weight) r.result = r.result * 31 + digest(w, kSize);
  });
}
