// Data-parallel training of an MLP, naively: each layer's gradient is all-reduced on the compute stream as
// soon as it is there, before the next layer's backward step. -DTWO_STREAMS: the reductions run on a side
// stream, joined before the update.
#include "ranks.h"

namespace {
constexpr int kLayers = 6, kSize = 4096, kWork = 24;
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 4);
  return run_ranks(a, [&](Rank& r) {
    float *weight[kLayers], *gradient[kLayers], *activation = upload(ramp(kSize, 1.0f + r.rank));
    for (int l = 0; l < kLayers; ++l) weight[l] = upload(ramp(kSize, 0.5f)), gradient[l] = zeros(kSize);
    CHECK(cudaDeviceSynchronize());
#ifdef TWO_STREAMS
    cudaEvent_t ready[kLayers], reduced;
    for (auto& e : ready) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&reduced, cudaEventDisableTiming));
#endif
    for (int i = 0; i < a.iterations; ++i) {
      for (int l = 0; l < kLayers; ++l) compute(activation, weight[l], 0.01f, kSize, kWork, r.compute);
      for (int l = kLayers - 1; l >= 0; --l) {
        compute(gradient[l], activation, 0.02f, kSize, kWork, r.compute);
#ifdef TWO_STREAMS
        CHECK(cudaEventRecord(ready[l], r.compute));
        CHECK(cudaStreamWaitEvent(r.side, ready[l], 0));
        NCCL(ncclAllReduce(gradient[l], gradient[l], kSize, ncclFloat, ncclAvg, r.comm, r.side));
#else
        NCCL(ncclAllReduce(gradient[l], gradient[l], kSize, ncclFloat, ncclAvg, r.comm, r.compute));
#endif
        compute(activation, weight[l], -0.01f, kSize, kWork, r.compute);
      }
#ifdef TWO_STREAMS
      CHECK(cudaEventRecord(reduced, r.side));
      CHECK(cudaStreamWaitEvent(r.compute, reduced, 0));
#endif
      for (int l = 0; l < kLayers; ++l) compute(weight[l], gradient[l], -0.001f, kSize, 1, r.compute);
    }
    CHECK(cudaStreamSynchronize(r.compute));
    for (float* w : weight) r.result = r.result * 31 + digest(w, kSize);
  });
}
