// What a collective costs and takes: links set its time, and it holds SM slots from its start until the last
// rank has come and the data has moved.
#include <atomic>

#include "tests/nccl/ranks.h"

namespace simgpu::testing {
namespace {

// Blocks of one warp that turn `rounds` times: work that fills the device when there are enough of them.
const char* const kSpin = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds) {
  .reg .b64 %rd<3>; .reg .b32 %r<6>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [rounds];
  mov.u32 %r2, 1; mov.u32 %r3, 0;
again:
  mad.lo.u32 %r2, %r2, 1664525, 1013904223;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra again;
  setp.eq.u32 %p1, %r2, 7;
  @!%p1 bra end;
  st.global.u32 [%rd1], %r2;
end:
  ret;
}
)";

struct Spinner {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  Spinner() {
    EXPECT_EQ(cudaLibraryLoadData(&library, kSpin, nullptr, nullptr, 0, nullptr, nullptr, 0), cudaSuccess);
    EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "spin"), cudaSuccess);
  }
  void run(cudaStream_t s, unsigned blocks, unsigned rounds) const {
    void* nowhere = nullptr;
    void* args[] = {&nowhere, &rounds};
    EXPECT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), blocks, 1024, args, 0, s), cudaSuccess);
  }
};

// Device time between two events around what `body` puts into the stream.
float timed(cudaStream_t s, const std::function<void()>& body) {
  cudaEvent_t begin, end;
  EXPECT_EQ(cudaEventCreate(&begin), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(begin, s), cudaSuccess);
  body();
  EXPECT_EQ(cudaEventRecord(end, s), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return ms;
}

float all_reduce_ms(Rank& me, size_t count) {
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, count * 4), cudaSuccess);
  EXPECT_EQ(cudaMemset(p, 0, count * 4), cudaSuccess);
  ncclAllReduce(p, p, 1, ncclFloat, ncclSum, me.comm, me.stream);  // everybody is here
  EXPECT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
  const float ms = timed(me.stream, [&] {
    EXPECT_EQ(ncclAllReduce(p, p, count, ncclFloat, ncclSum, me.comm, me.stream), ncclSuccess);
  });
  cudaFree(p);
  return ms;
}

// A ring moves 2 (n - 1) / n of the bytes over each link at 80 % of its rate, and the slowest link counts.
TEST(Cost, TheSlowestLinkSetsThePace) {
  constexpr size_t kCount = 16 << 20;
  const auto expected_ms = [](double ranks, double bytes_per_s) {
    return 2 * (ranks - 1) / ranks * kCount * 4 / (0.8 * bytes_per_s) * 1e3;
  };
  const double rate = getenv("SHUNT_TEST_LINK_RATE") ? atof(getenv("SHUNT_TEST_LINK_RATE")) : 900e9;
  for (const int ranks : {2, 4})
    on_ranks(ranks, [&](Rank& me) {
      const float ms = all_reduce_ms(me, kCount);
      EXPECT_NEAR(ms, expected_ms(ranks, rate), 0.1 * expected_ms(ranks, rate) + 0.02) << ranks << " ranks";
    });
}

// Rank 1 comes late. Until then rank 0's collective holds its slots, and a kernel that needs them all takes
// longer.
TEST(Cost, SlotsAreHeldWhileARankIsAwaited) {
  std::atomic<bool> measured{false};
  on_ranks(2, [&](Rank& me) {
    const Spinner spinner;
    cudaStream_t compute;
    ASSERT_EQ(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), cudaSuccess);
    int sms = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, me.rank), cudaSuccess);
    int value = 1;
    void* p = me.upload(&value, 4);
    const auto meet = [&] {
      ASSERT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    };
    const auto wave = [&] { spinner.run(compute, 2 * static_cast<unsigned>(sms), 300); };
    wave();  // loaded
    ASSERT_EQ(cudaStreamSynchronize(compute), cudaSuccess);
    const float alone = timed(compute, wave);
    meet();
    float beside = 0;
    if (me.rank == 1) {
      while (!measured) usleep(100);  // late
      ASSERT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    } else {
      ASSERT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
      beside = timed(compute, wave);
      measured = true;
      printf("alone %f ms, beside a waiting collective %f ms\n", alone, beside);
      EXPECT_GT(beside, 1.03f * alone)
          << "a waiting collective of 16 blocks leaves " << sms - 16 << " of " << sms;
      EXPECT_LT(beside, 2.5f * alone);
    }
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    if (me.rank == 0) {
      EXPECT_NEAR(timed(compute, wave), alone, 0.01f * alone) << "given back";
    }
    cudaStreamDestroy(compute);
  });
}

}  // namespace
}  // namespace simgpu::testing
