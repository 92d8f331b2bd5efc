// Non-blocking communicators, groups that fail as a whole, simulated groups, and single threads that drive
// all ranks.
#include "tests/nccl/ranks.h"

namespace simgpu::testing {
namespace {

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}
ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

// A communicator of one rank, so that the test needs no second thread.
struct Alone : ::testing::Test {
  void SetUp() override {
    ncclUniqueId id;
    ncclConfig_t config = non_blocking();
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
    ASSERT_EQ(settle(comm), ncclSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&in, 4), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&out, 4), cudaSuccess);
    const int seven = 7, zero = 0;
    ASSERT_EQ(cudaMemcpy(in, &seven, 4, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(out, &zero, 4, cudaMemcpyHostToDevice), cudaSuccess);
  }
  void TearDown() override {
    if (comm) {
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    }
    cudaStreamDestroy(stream);
    cudaFree(in);
    cudaFree(out);
  }
  ncclResult_t reduce() { return ncclAllReduce(in, out, 1, ncclInt32, ncclSum, comm, stream); }
  int result() {
    int value = -1;
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  void *in = nullptr, *out = nullptr;
};

// What an end event recorded at once would miss: the operation is not in the stream yet.
TEST_F(Alone, InProgressMeansNotInTheStreamYet) {
  ASSERT_EQ(reduce(), ncclInProgress);
  EXPECT_EQ(result(), 0);
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(result(), 7);
}

TEST_F(Alone, NothingIsAcceptedWhileTheCallBeforeIsInProgress) {
  ASSERT_EQ(reduce(), ncclInProgress);
  ncclComm_t part = nullptr;
  EXPECT_EQ(reduce(), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(comm, 0, 0, &part, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(result(), 7);
}

TEST_F(Alone, GroupsAreInProgressToo) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(in, 1, ncclInt32, 0, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclRecv(out, 1, ncclInt32, 0, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  EXPECT_EQ(result(), 0);
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(result(), 7);
}

TEST_F(Alone, AbortDropsWhatIsNotInTheStream) {
  ASSERT_EQ(reduce(), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  comm = nullptr;
  EXPECT_EQ(result(), 0);
}

TEST_F(Alone, ChildrenInheritTheirParentsWay) {
  ncclComm_t heir = nullptr, own = nullptr;
  EXPECT_EQ(ncclCommSplit(comm, 0, 0, &heir, nullptr), ncclInProgress);
  ASSERT_EQ(settle(comm), ncclSuccess);
  ASSERT_NE(heir, nullptr);
  EXPECT_EQ(ncclAllReduce(in, out, 1, ncclInt32, ncclSum, heir, stream), ncclInProgress);
  EXPECT_EQ(settle(heir), ncclSuccess);
  ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
  blocking.blocking = 1;
  EXPECT_EQ(ncclCommSplit(comm, 0, 0, &own, &blocking), ncclInProgress);
  ASSERT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(in, out, 1, ncclInt32, ncclSum, own, stream), ncclSuccess);
  EXPECT_EQ(result(), 7);
  EXPECT_EQ(ncclCommDestroy(heir), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(own), ncclSuccess);
}

TEST_F(Alone, FinalisedOnceAndInProgress) {
  EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
  EXPECT_EQ(settle(comm), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
}

// One refused call: the group's end says so, and none of its operations runs.
TEST(FailedGroups, DoNothing) {
  on_ranks(1, [](Rank& me) {
    int value = 3, zero = 0;
    void *p = me.upload(&value, 4), *q = me.upload(&zero, 4);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(p, q, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    EXPECT_EQ(ncclBroadcast(p, q, 1, ncclInt32, 5, me.comm, me.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(q, 1)[0], 0);
    // The next group knows nothing of it.
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(p, q, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(q, 1)[0], 3);
  });
}

// Simulated: a time, and nothing happens. Larger takes longer.
TEST(SimulatedGroups, TellTheTimeAndDoNothing) {
  on_ranks(2, [](Rank& me) {
    std::vector<int> data(1 << 20, 1 + me.rank);
    void* p = me.upload(data.data(), data.size() * 4);
    float times[2] = {};
    for (int i = 0; i < 2; ++i) {
      ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      ASSERT_EQ(ncclAllReduce(p, p, i ? data.size() : 4, ncclInt32, ncclSum, me.comm, me.stream),
                ncclSuccess);
      ASSERT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
      times[i] = info.estimatedTime;
    }
    EXPECT_GT(times[0], 0);
    EXPECT_GT(times[1], times[0]);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(p, 1)[0], 1 + me.rank);
    ncclSimInfo_t bad{};
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclGroupSimulateEnd(&bad), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the group is over";
  });
}

// One thread announces all its ranks before it waits for any.
TEST(OneThread, SplitsAllItsRanksInAGroup) {
  ncclComm_t all[4], parts[4] = {};
  ASSERT_EQ(ncclCommInitAll(all, 4, nullptr), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 4; ++r) ASSERT_EQ(ncclCommSplit(all[r], r / 2, r, &parts[r], nullptr), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int r = 0; r < 4; ++r) {
    int count = 0, rank = -1;
    ASSERT_NE(parts[r], nullptr);
    EXPECT_EQ(ncclCommCount(parts[r], &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(parts[r], &rank), ncclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(rank, r % 2);
    EXPECT_EQ(ncclCommDestroy(parts[r]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(all[r]), ncclSuccess);
  }
}

}  // namespace
}  // namespace simgpu::testing
