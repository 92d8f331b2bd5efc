// Stencil with halos: pack, exchange with both neighbours by send and receive in a group, inner part, border
// part. -DTWO_STREAMS: the exchange runs on a side stream beside the inner part.
#include "ranks.h"

namespace {
constexpr int kInner = 8192, kHalo = 256;
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 6);
  return run_ranks(a, [&](Rank& r) {
    float *inner = upload(ramp(kInner, 1.0f + r.rank)), *scratch = zeros(kInner);
    float *left_out = upload(ramp(kHalo, 2.0f)), *right_out = upload(ramp(kHalo, 3.0f)),
          *left_in = zeros(kHalo), *right_in = zeros(kHalo);
    const int left = (r.rank + r.ranks - 1) % r.ranks, right = (r.rank + 1) % r.ranks;
    cudaEvent_t packed, arrived;
    CHECK(cudaEventCreateWithFlags(&packed, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < a.iterations; ++i) {
      compute(left_out, inner, 0.5f, kHalo, 2, r.compute);
      compute(right_out, inner + kInner - kHalo, 0.5f, kHalo, 2, r.compute);
      cudaStream_t s = r.compute;
#ifdef TWO_STREAMS
      s = r.side;
      CHECK(cudaEventRecord(packed, r.compute));
      CHECK(cudaStreamWaitEvent(r.side, packed, 0));
#endif
      NCCL(ncclGroupStart());
      NCCL(ncclSend(left_out, kHalo, ncclFloat, left, r.comm, s));
      NCCL(ncclRecv(right_in, kHalo, ncclFloat, right, r.comm, s));
      NCCL(ncclSend(right_out, kHalo, ncclFloat, right, r.comm, s));
      NCCL(ncclRecv(left_in, kHalo, ncclFloat, left, r.comm, s));
      NCCL(ncclGroupEnd());
#ifdef TWO_STREAMS
      CHECK(cudaEventRecord(arrived, r.side));
#endif
      compute(scratch, inner, 0.25f, kInner, 32, r.compute);
#ifdef TWO_STREAMS
      CHECK(cudaStreamWaitEvent(r.compute, arrived, 0));
#endif
      compute(inner, left_in, 0.1f, kHalo, 2, r.compute);
      compute(inner + kInner - kHalo, right_in, 0.1f, kHalo, 2, r.compute);
      compute(inner + kHalo, scratch + kHalo, 0.01f, kInner - 2 * kHalo, 2, r.compute);
    }
    CHECK(cudaStreamSynchronize(r.compute));
    r.result = digest(inner, kInner) * 31 + digest(left_in, kHalo);
  });
}
