// Registered buffers, symmetric windows, ncclMemAlloc. Mismatches end a device, so they run in children,
// before this process uses CUDA (see failures_test.cpp).
#include <cuda.h>

#include "tests/nccl/children.h"
#include "tests/nccl/ranks.h"

namespace simgpu::testing {
namespace {

constexpr size_t kBytes = 64 << 10;

// Two ranks with a window each; `offset` and `window` say what a rank passes to an AllReduce in place.
std::string reduce_in_windows(const std::function<size_t(int)>& offset,
                              const std::function<bool(int)>& in_window, bool fails) {
  int status = 0;
  const std::string text = in_child(
      [&] {
        on_ranks(2, [&](Rank& me) {
          void *memory = nullptr, *plain = nullptr;
          ncclWindow_t window = nullptr;
          EXPECT_EQ(ncclMemAlloc(&memory, kBytes), ncclSuccess);
          EXPECT_EQ(cudaMalloc(&plain, kBytes), cudaSuccess);
          EXPECT_EQ(cudaMemset(memory, 1 + me.rank, kBytes), cudaSuccess);
          EXPECT_EQ(cudaMemset(plain, 1 + me.rank, kBytes), cudaSuccess);
          EXPECT_EQ(ncclCommWindowRegister(me.comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC),
                    ncclSuccess);
          EXPECT_NE(window, nullptr);
          char* p = static_cast<char*>(in_window(me.rank) ? memory : plain) + offset(me.rank);
          EXPECT_EQ(ncclAllReduce(p, p, 1000, ncclInt8, ncclSum, me.comm, me.stream), ncclSuccess);
          if (fails) {
            EXPECT_NE(cudaStreamSynchronize(me.stream), cudaSuccess);
            return;
          }
          EXPECT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
          EXPECT_EQ(me.download<char>(p, 1000), std::vector<char>(1000, 3));
          EXPECT_EQ(ncclCommWindowDeregister(me.comm, window), ncclSuccess);
          EXPECT_EQ(ncclCommWindowDeregister(me.comm, window), ncclInvalidArgument) << "twice";
          EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
        });
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      status, "20");
  EXPECT_EQ(status, 0) << text;
  return text;
}
const auto everybody = [](int) { return true; };

TEST(Windows, EqualOffsetsWork) {
  reduce_in_windows([](int) { return size_t{4096}; }, everybody, false);
}
TEST(Windows, DifferentOffsetsAreAMismatchOnBothSides) {
  const std::string text = reduce_in_windows([](int r) { return r ? size_t{4096} : 0; }, everybody, true);
  EXPECT_NE(text.find("rank 0 and rank 1: different offsets in their symmetric windows"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 1 and rank 0: different offsets in their symmetric windows"), std::string::npos)
      << text;
}
// What a bounce buffer of one rank would do.
TEST(Windows, RegisteredOnOneRankOnlyIsAMismatch) {
  const std::string text =
      reduce_in_windows([](int) { return size_t{0}; }, [](int r) { return r == 0; }, true);
  EXPECT_NE(text.find("the buffers of one are registered, those of the other are not"), std::string::npos)
      << text;
}

TEST(Windows, RankThatNeverRegistersIsNoHang) {
  int status = 0;
  const std::string text = in_child(
      [] {
        on_ranks(2, [](Rank& me) {
          void* p = nullptr;
          ncclWindow_t window = nullptr;
          EXPECT_EQ(ncclMemAlloc(&p, kBytes), ncclSuccess);
          if (me.rank == 0) {
            EXPECT_EQ(ncclCommWindowRegister(me.comm, p, kBytes, &window, 0), ncclSystemError);
            EXPECT_NE(std::string(ncclGetLastError(me.comm)).find("rank 1 never called it"),
                      std::string::npos);
          }
        });
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      status, "1");
  EXPECT_EQ(status, 0) << text;
}

TEST(Windows, NeedMemoryThatOthersCanMap) {
  on_ranks(1, [](Rank& me) {
    void *p = nullptr, *plain = nullptr;
    ncclWindow_t window = reinterpret_cast<ncclWindow_t>(1);
    ASSERT_EQ(ncclMemAlloc(&p, kBytes), ncclSuccess);
    ASSERT_EQ(cudaMalloc(&plain, kBytes), cudaSuccess);
    EXPECT_EQ(ncclCommWindowRegister(me.comm, plain, kBytes, &window, 0), ncclUnhandledCudaError);
    EXPECT_EQ(window, nullptr);
    EXPECT_EQ(ncclCommWindowRegister(me.comm, static_cast<char*>(p) + 8, 64, &window, 0), ncclInvalidArgument)
        << "alignment";
    EXPECT_EQ(ncclCommWindowRegister(me.comm, nullptr, 64, &window, 0), ncclSuccess);
    EXPECT_EQ(window, nullptr) << "nothing to register, as NCCL answers";
    EXPECT_EQ(ncclCommWindowRegister(me.comm, p, kBytes, nullptr, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommWindowDeregister(me.comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclMemFree(p), ncclSuccess);
    EXPECT_EQ(ncclMemFree(p), ncclUnhandledCudaError) << "twice";
    EXPECT_EQ(ncclMemAlloc(nullptr, 1), ncclInvalidArgument);
    cudaFree(plain);
  });
}

TEST(Registration, BuffersAreRegisteredAndForgotten) {
  on_ranks(1, [](Rank& me) {
    void* p = nullptr;
    ASSERT_EQ(ncclMemAlloc(&p, 8192), ncclSuccess);
    void *handle = nullptr, *none = nullptr;
    ASSERT_EQ(ncclCommRegister(me.comm, p, 8192, &handle), ncclSuccess);
    EXPECT_NE(handle, nullptr);
    EXPECT_EQ(ncclCommRegister(me.comm, p, 0, &none), ncclInvalidArgument);
    EXPECT_EQ(ncclCommRegister(me.comm, p, 8192, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDeregister(me.comm, handle), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(me.comm, handle), ncclInvalidArgument) << "twice";
    EXPECT_EQ(ncclCommDeregister(me.comm, reinterpret_cast<void*>(77)), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDeregister(me.comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclMemFree(p), ncclSuccess);
  });
}

}  // namespace
}  // namespace simgpu::testing
