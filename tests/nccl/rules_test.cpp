// NCCL's rules: groups, point to point, streams, communicators made of communicators, and everything that
// goes wrong.

#include <dlfcn.h>

#include <fstream>
#include <regex>
#include <set>

#include "tests/nccl/ranks.h"

namespace simgpu::testing {
namespace {

TEST(PointToPoint, RingInOneGroup) {
  on_ranks(4, [](Rank& me) {
    std::vector<int> data(1000, me.rank);
    void* out = me.upload(data.data(), 4000);
    void* in = me.upload(data.data(), 4000);
    const int next = (me.rank + 1) % 4, before = (me.rank + 3) % 4;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(out, 1000, ncclInt32, next, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(ncclRecv(in, 1000, ncclInt32, before, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    for (int v : me.download<int>(in, 1000)) ASSERT_EQ(v, before);
  });
}

TEST(PointToPoint, PairsMatchInOrder) {
  on_ranks(2, [](Rank& me) {
    for (int i = 0; i < 5; ++i) {
      int value = 10 * me.rank + i;
      void* p = me.upload(&value, 4);
      if (me.rank == 0)
        ASSERT_EQ(ncclSend(p, 1, ncclInt32, 1, me.comm, me.stream), ncclSuccess);
      else
        ASSERT_EQ(ncclRecv(p, 1, ncclInt32, 0, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
      EXPECT_EQ(me.download<int>(p, 1)[0], i);
    }
  });
}

TEST(PointToPoint, ToItselfInsideAGroupOnly) {
  on_ranks(1, [](Rank& me) {
    int a = 7, b = 0;
    void *x = me.upload(&a, 4), *y = me.upload(&b, 4);
    EXPECT_EQ(ncclSend(x, 1, ncclInt32, 0, me.comm, me.stream), ncclInvalidUsage);
    ncclGroupStart();
    EXPECT_EQ(ncclSend(x, 1, ncclInt32, 0, me.comm, me.stream), ncclSuccess);
    EXPECT_EQ(ncclRecv(y, 1, ncclInt32, 0, me.comm, me.stream), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(y, 1)[0], 7);
  });
}

TEST(Groups, OneThreadDrivesAllDevices) {
  constexpr int kDevices = 4;
  ncclComm_t comms[kDevices];
  ASSERT_EQ(ncclCommInitAll(comms, kDevices, nullptr), ncclSuccess);
  void* buffers[kDevices];
  cudaStream_t streams[kDevices];
  for (int d = 0; d < kDevices; ++d) {
    ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&streams[d]), cudaSuccess);
    const int value = 1 << d;
    ASSERT_EQ(cudaMalloc(&buffers[d], 4), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(buffers[d], &value, 4, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int d = 0; d < kDevices; ++d)
    ASSERT_EQ(ncclAllReduce(buffers[d], buffers[d], 1, ncclInt32, ncclSum, comms[d], streams[d]),
              ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int d = 0; d < kDevices; ++d) {
    ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(streams[d]), cudaSuccess);
    int value = 0;
    ASSERT_EQ(cudaMemcpy(&value, buffers[d], 4, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(value, 15);
    int count = 0, device = -1, rank = -1;
    EXPECT_EQ(ncclCommCount(comms[d], &count), ncclSuccess);
    EXPECT_EQ(ncclCommCuDevice(comms[d], &device), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(comms[d], &rank), ncclSuccess);
    EXPECT_EQ(count, kDevices);
    EXPECT_EQ(device, d);
    EXPECT_EQ(rank, d);
    EXPECT_EQ(ncclCommFinalize(comms[d]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comms[d]), ncclSuccess);
  }
}

// Two streams of one communicator in a group: NCCL makes both wait before and after.
TEST(Groups, StreamsOfOneGroupWaitForEachOther) {
  on_ranks(2, [](Rank& me) {
    cudaStream_t other;
    ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    std::vector<int> ones(1 << 16, 1), zeros(1 << 16, 0);
    void *a = me.upload(zeros.data(), zeros.size() * 4), *b = me.upload(ones.data(), ones.size() * 4),
         *c = me.upload(zeros.data(), zeros.size() * 4);
    // b is written on `other` just before; the group's first stream is me.stream.
    ASSERT_EQ(cudaMemcpyAsync(c, b, ones.size() * 4, cudaMemcpyDeviceToDevice, other), cudaSuccess);
    ncclGroupStart();
    ASSERT_EQ(ncclAllReduce(a, a, 16, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(c, c, 1 << 16, ncclInt32, ncclSum, me.comm, other), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_EQ(cudaMemcpyAsync(b, c, ones.size() * 4, cudaMemcpyDeviceToDevice, other), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
    for (int v : me.download<int>(b, 1 << 16)) ASSERT_EQ(v, 2);
  });
}

// Nothing is enqueued before the outermost end: the stream stays idle and takes other work in front.
TEST(Groups, NothingIsEnqueuedBeforeTheOutermostEnd) {
  on_ranks(2, [](Rank& me) {
    int zero = 0, one = 1;
    void *p = me.upload(&zero, 4), *q = me.upload(&one, 4);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(cudaStreamQuery(me.stream), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(p, q, 4, cudaMemcpyDeviceToDevice, me.stream), cudaSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(p, 1)[0], 2);
  });
}

TEST(Groups, BlockingAndNonBlockingCommunicatorsDoNotMix) {
  on_ranks(1, [](Rank& me) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t other = nullptr;
    ncclResult_t state = ncclCommInitRankConfig(&other, 1, id, 0, &config);
    ASSERT_TRUE(state == ncclInProgress || state == ncclSuccess);
    do ASSERT_EQ(ncclCommGetAsyncError(other, &state), ncclSuccess);
    while (state == ncclInProgress);
    int value = 3;
    void* p = me.upload(&value, 4);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, other, me.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(p, 1)[0], 3);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

// In place is mere equality of pointers: the rank's part of the large buffer.
TEST(Operators, InPlaceIsTheRanksPart) {
  on_ranks(4, [](Rank& me) {
    const size_t n = 100;
    std::vector<int> data(4 * n);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int>(i) + 1000 * me.rank;
    auto* all = static_cast<int*>(me.upload(data.data(), data.size() * 4));
    int* part = all + static_cast<size_t>(me.rank) * n;
    ASSERT_EQ(ncclReduceScatter(all, part, n, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(ncclAllGather(part, all, n, ncclInt32, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    const auto out = me.download<int>(all, 4 * n);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<int>(4 * i) + 6000);
  });
}

// The operator's handle may die once the call has returned; a scalar on the device is read while it runs.
TEST(Operators, TheHandleMayDieBeforeTheOperationRuns) {
  on_ranks(2, [](Rank& me) {
    float value = 4, half = 0.5f, quarter = 0.25f;
    void *p = me.upload(&value, 4), *scalar = me.upload(&half, 4), *later = me.upload(&quarter, 4);
    ncclRedOp_t op;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, scalar, ncclFloat, ncclScalarDevice, me.comm), ncclSuccess);
    ASSERT_EQ(cudaMemcpyAsync(scalar, later, 4, cudaMemcpyDeviceToDevice, me.stream), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(p, p, 1, ncclFloat, op, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(ncclRedOpDestroy(op, me.comm), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<float>(p, 1)[0], 2.0f);
  });
}

// Captured on every rank, launched on every rank, twice.
TEST(Capture, GraphsOfAllRanksMeet) {
  on_ranks(2, [](Rank& me) {
    int value = 3;
    void* p = me.upload(&value, 4);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    ASSERT_EQ(cudaStreamBeginCapture(me.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(me.stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(exec, me.stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(p, 1)[0], 12);
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  });
}

// Every function has a twin for profilers and interposers: the same function under another name.
TEST(Twins, EveryFunctionHasOne) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  std::ifstream header(NCCL_HEADER);
  const std::regex declared("(p?nccl[A-Z][A-Za-z0-9]*) *\\(");
  std::set<std::string> names;
  for (std::string line; std::getline(header, line);)
    if (std::smatch m; line.rfind("ncclResult_t", 0) == 0 || line.rfind("const char*", 0) == 0)
      if (std::regex_search(line, m, declared)) names.insert(m[1]);
  size_t twins = 0;
  for (const std::string& name : names) {
    EXPECT_NE(dlsym(library, name.c_str()), nullptr) << name;
    twins += name[0] == 'p';
  }
  EXPECT_GE(twins, 40u);
  EXPECT_EQ(twins * 2, names.size());
  int version = 0;
  EXPECT_EQ(pncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
}

TEST(Communicators, SplitByColorAndKey) {
  on_ranks(4, [](Rank& me) {
    ncclComm_t part = nullptr;
    ASSERT_EQ(ncclCommSplit(me.comm, me.rank % 2, -me.rank, &part, nullptr), ncclSuccess);
    int count = 0, rank = -1;
    ncclCommCount(part, &count);
    ncclCommUserRank(part, &rank);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(rank, me.rank < 2 ? 1 : 0);  // the larger old rank has the smaller key
    int value = 1 << me.rank;
    void* p = me.upload(&value, 4);
    ASSERT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, part, me.stream), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(p, 1)[0], me.rank % 2 ? 2 + 8 : 1 + 4);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    ncclComm_t none = reinterpret_cast<ncclComm_t>(1);
    ASSERT_EQ(ncclCommSplit(me.comm, me.rank == 0 ? NCCL_SPLIT_NOCOLOR : 1, 0, &none, nullptr), ncclSuccess);
    EXPECT_EQ(none == nullptr, me.rank == 0);
  });
}

// A rank whose call was refused has not taken part: its next split still meets the others'.
TEST(Communicators, ARefusedConfigurationCountsAsNoCall) {
  on_ranks(2, [](Rank& me) {
    ncclComm_t part = nullptr;
    ncclConfig_t bad = NCCL_CONFIG_INITIALIZER;
    bad.blocking = 7;
    if (me.rank == 0) {
      EXPECT_EQ(ncclCommSplit(me.comm, 0, 0, &part, &bad), ncclInvalidArgument);
    }
    EXPECT_EQ(part, nullptr);
    ASSERT_EQ(ncclCommSplit(me.comm, 0, me.rank, &part, nullptr), ncclSuccess);
    int ranks = 0;
    EXPECT_EQ(ncclCommCount(part, &ranks), ncclSuccess);
    EXPECT_EQ(ranks, 2);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
}
TEST(Communicators, ShrinkLeavesOut) {
  on_ranks(3, [](Rank& me) {
    int excluded = 1;
    ncclComm_t rest = nullptr;
    if (me.rank == 1) {
      EXPECT_EQ(ncclCommShrink(me.comm, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT),
                ncclInvalidArgument);
      return;
    }
    ASSERT_EQ(ncclCommShrink(me.comm, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT), ncclSuccess);
    int value = 5;
    void* p = me.upload(&value, 4);
    ASSERT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclProd, rest, me.stream), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    EXPECT_EQ(me.download<int>(p, 1)[0], 25);
  });
}

TEST(Communicators, NonBlockingInitReportsProgress) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([=] {
      ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t comm;
      ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, r, &config), ncclInProgress);
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress) ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      EXPECT_EQ(state, ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
  }
  for (auto& t : threads) t.join();
}

TEST(BadInput, DocumentedAnswers) {
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  ncclUniqueId id, foreign{};
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, foreign, 0), ncclInvalidArgument);
  int twice[] = {0, 0};
  ncclComm_t pair[2];
  EXPECT_EQ(ncclCommInitAll(pair, 2, twice), ncclInvalidUsage);
  int absent[] = {99};
  EXPECT_EQ(ncclCommInitAll(pair, 1, absent), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, ncclFloat, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  int not_a_comm[64] = {};
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, ncclFloat, ncclSum, reinterpret_cast<ncclComm_t>(not_a_comm),
                          nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_STREQ(ncclGetErrorString(ncclInvalidUsage), "invalid usage");
  on_ranks(1, [](Rank& me) {
    int value = 3;
    void* p = me.upload(&value, 4);
    EXPECT_EQ(ncclAllReduce(p, p, 1, static_cast<ncclDataType_t>(99), ncclSum, me.comm, me.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, static_cast<ncclRedOp_t>(77), me.comm, me.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(p, p, 1, ncclInt32, 1, me.comm, me.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(p, p, 1, ncclInt32, -1, me.comm, me.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(p, 1, ncclInt32, 4, me.comm, me.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt32, ncclSum, me.comm, me.stream),
              ncclSuccess);  // empty: nothing to do
    EXPECT_EQ(ncclCommFinalize(me.comm), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, me.comm, me.stream), ncclInvalidUsage);
  });
  ncclComm_t freed = nullptr;
  on_ranks(1, [&](Rank& me) { freed = me.comm; });
  EXPECT_EQ(ncclCommDestroy(freed), ncclInvalidArgument);
}

}  // namespace
}  // namespace simgpu::testing
