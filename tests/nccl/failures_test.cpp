// What ends a device or a process: mismatches, ranks that never come, aborts, killed ranks. Every case runs
// in children, so that this process never uses CUDA itself (the driver refuses it in fork children of a
// process that has).
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "tests/nccl/children.h"
#include "tests/nccl/ranks.h"

namespace simgpu::testing {
namespace {

// The driver forbids CUDA in fork children of a process that has used it, so these run first, from a process
// that has not.
TEST(Failures, MismatchIsReportedFromBothSides) {
  int status = 0;
  const std::string text = in_child(
      [] {
        on_ranks(2, [](Rank& me) {
          std::vector<float> data(64, 1);
          void* p = me.upload(data.data(), 256);
          EXPECT_EQ(ncclAllReduce(p, p, me.rank ? 64 : 32, ncclFloat, ncclSum, me.comm, me.stream),
                    ncclSuccess);
          EXPECT_NE(cudaStreamSynchronize(me.stream), cudaSuccess);
          ncclResult_t state = ncclSuccess;
          EXPECT_EQ(ncclCommGetAsyncError(me.comm, &state), ncclSuccess);
          EXPECT_EQ(state, ncclInvalidUsage);
        });
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      status, "20");
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(text.find("rank 0 called AllReduce(count 32, float32"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 called AllReduce(count 64, float32"), std::string::npos) << text;
}

TEST(Failures, CapturedOnOneRankOnlyIsAMismatch) {
  int status = 0;
  const std::string text = in_child(
      [] {
        on_ranks(2, [](Rank& me) {
          int value = 1;
          void* p = me.upload(&value, 4);
          cudaGraph_t graph;
          cudaGraphExec_t exec;
          if (me.rank == 0) cudaStreamBeginCapture(me.stream, cudaStreamCaptureModeThreadLocal);
          EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
          if (me.rank == 0) {
            EXPECT_EQ(cudaStreamEndCapture(me.stream, &graph), cudaSuccess);
            EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
            EXPECT_EQ(cudaGraphLaunch(exec, me.stream), cudaSuccess);
          }
          EXPECT_NE(cudaStreamSynchronize(me.stream), cudaSuccess);
        });
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      status, "20");
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(text.find("rank 0 called AllReduce(count 1, int32, op 0, root 0) in a graph, rank 1 called"),
            std::string::npos)
      << text;
}

// Two communicators in different order on two devices: each waits for what stands behind the other's. Nobody
// hangs for ever, and the report names who waits for whom.
TEST(Failures, DifferentOrderAcrossCommunicatorsIsNoHang) {
  int status = 0;
  const std::string text = in_child(
      [] {
        on_ranks(2, [](Rank& me) {
          ncclComm_t second = nullptr;
          EXPECT_EQ(ncclCommSplit(me.comm, 0, me.rank, &second, nullptr), ncclSuccess);
          int value = 1;
          void *p = me.upload(&value, 4), *q = me.upload(&value, 4);
          ncclComm_t order[2] = {me.rank ? second : me.comm, me.rank ? me.comm : second};
          EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, order[0], me.stream), ncclSuccess);
          EXPECT_EQ(ncclAllReduce(q, q, 1, ncclInt32, ncclSum, order[1], me.stream), ncclSuccess);
          EXPECT_NE(cudaStreamSynchronize(me.stream), cudaSuccess);
        });
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      status, "1");
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(text.find("rank 0 gave up after 1 s in AllReduce number 0: rank 1 never came"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 1 gave up after 1 s in AllReduce number 0: rank 0 never came"), std::string::npos)
      << text;
}

TEST(Failures, ABufferSmallerThanTheCallSaysIsNoHang) {
  int status = 0;
  const std::string text = in_child(
      [] {
        on_ranks(2, [](Rank& me) {
          int value = 1;
          void* p = me.upload(&value, 4);
          EXPECT_EQ(ncclAllReduce(p, p, 1 << 20, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
          EXPECT_NE(cudaStreamSynchronize(me.stream), cudaSuccess);
          ncclResult_t state = ncclSuccess;
          EXPECT_EQ(ncclCommGetAsyncError(me.comm, &state), ncclSuccess);
          EXPECT_EQ(state, ncclUnhandledCudaError);
        });
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      status, "5");
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(text.find("is no live device memory of the stated size"), std::string::npos) << text;
}

TEST(Failures, RankThatNeverComesIsNamed) {
  int status = 0;
  const std::string text = in_child(
      [] {
        on_ranks(2, [](Rank& me) {
          int value = 1;
          void* p = me.upload(&value, 4);
          if (me.rank == 0) {
            EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
            EXPECT_NE(cudaStreamSynchronize(me.stream), cudaSuccess);
          }
        });
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      status, "1");
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(text.find("rank 0 gave up after 1 s in AllReduce number 0: rank 1 never came"), std::string::npos)
      << text;
}

TEST(Failures, AbortEndsWhatWaits) {
  int status = 0;
  const std::string text = in_child(
      [] {
        std::atomic<int> done{0};
        on_ranks(2, [&](Rank& me) {
          int value = 1;
          void* p = me.upload(&value, 4);
          if (me.rank == 0) {
            EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
            EXPECT_EQ(ncclCommAbort(me.comm), ncclSuccess);
            EXPECT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
            me.comm = nullptr;
          }
          ++done;
        });
        return ::testing::Test::HasFailure() || done != 2 ? 1 : 0;
      },
      status, "20");
  EXPECT_EQ(status, 0) << text;
}

TEST(Failures, ProcessesReduceTogetherAndAKilledOneIsNoticed) {
  // Both ranks are children; the unique id needs no CUDA.
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  auto rank = [&](int r) {
    setenv("SIMGPU_NCCL_TIMEOUT", "2", 1);
    cudaSetDevice(r);
    ncclComm_t comm;
    if (ncclCommInitRank(&comm, 2, id, r) != ncclSuccess) return 10;
    cudaStream_t s;
    cudaStreamCreate(&s);
    std::vector<int> data(50000, r + 1);
    void* p;
    cudaMalloc(&p, data.size() * 4);
    cudaMemcpy(p, data.data(), data.size() * 4, cudaMemcpyHostToDevice);
    if (ncclAllReduce(p, p, data.size(), ncclInt32, ncclSum, comm, s) != ncclSuccess ||
        cudaStreamSynchronize(s) != cudaSuccess)
      return 11;
    cudaMemcpy(data.data(), p, data.size() * 4, cudaMemcpyDeviceToHost);
    for (int v : data) {
      if (v != 3) return 12;
    }
    if (r == 1) raise(SIGKILL);
    ncclAllReduce(p, p, data.size(), ncclInt32, ncclSum, comm, s);
    if (cudaStreamSynchronize(s) == cudaSuccess) return 13;
    ncclResult_t state;
    ncclCommGetAsyncError(comm, &state);
    return state == ncclRemoteError ? 0 : 14;
  };
  const pid_t second = fork();
  if (second == 0) _exit(rank(1));
  int status = 0;
  const std::string text = in_child([&] { return rank(0); }, status, "2");
  int killed = 0;
  waitpid(second, &killed, 0);
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL) << killed;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status) << text;
  EXPECT_NE(text.find("whose process has ended"), std::string::npos) << text;
}

}  // namespace
}  // namespace simgpu::testing
