// Collectives take part in the race detector: what is planted is found, correct programs are quiet. Each case
// in a fresh process with SIMGPU_RACES set.
#include <stdio.h>

#include <barrier>
#include <string>

#include "tests/nccl/ranks.h"
#include "tests/rerun.h"

namespace simgpu::testing {
namespace {

constexpr size_t kCount = 1024, kBytes = kCount * sizeof(float);

std::string child(const std::string& environment, const std::string& test) {
  return shunt::test::rerun(environment, "Planted." + test, "^simgpu: race|FAILED|^out:");
}

struct Buffers {
  float *in = nullptr, *out = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  explicit Buffers(int ranks) {
    EXPECT_EQ(cudaMalloc(&in, kBytes * static_cast<size_t>(ranks)), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&out, kBytes * static_cast<size_t>(ranks)), cudaSuccess);
    EXPECT_EQ(cudaMemset(in, 0, kBytes), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  }
  void fill(float* p, cudaStream_t stream) const {
    EXPECT_EQ(cudaMemsetAsync(p, 1, kBytes, stream), cudaSuccess);
  }
  void join(cudaStream_t from, cudaStream_t to) const {
    EXPECT_EQ(cudaEventRecord(event, from), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(to, event, 0), cudaSuccess);
  }
};
void all_reduce(const Rank& me, const Buffers& b) {
  EXPECT_EQ(ncclAllReduce(b.in, b.out, kCount, ncclFloat, ncclSum, me.comm, me.stream), ncclSuccess);
}

// --- racy ---
TEST(Planted, DISABLED_MissingJoinAfter) {
  on_ranks(2, [](Rank& me) {
    Buffers b(2);
    all_reduce(me, b);
    b.fill(b.out, b.other);  // overwrites the result, unordered
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  });
}
TEST(Planted, DISABLED_MissingJoinBefore) {
  on_ranks(2, [](Rank& me) {
    Buffers b(2);
    b.fill(b.in, b.other);
    if (me.rank == 0) b.join(b.other, me.stream);  // rank 1 forgot
    all_reduce(me, b);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  });
}
TEST(Planted, DISABLED_SendBeforeJoin) {
  on_ranks(2, [](Rank& me) {
    Buffers b(2);
    if (me.rank == 0) {
      b.fill(b.in, b.other);
      EXPECT_EQ(ncclSend(b.in, kCount, ncclFloat, 1, me.comm, me.stream), ncclSuccess);
    } else {
      EXPECT_EQ(ncclRecv(b.out, kCount, ncclFloat, 0, me.comm, me.stream), ncclSuccess);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  });
}
TEST(Planted, DISABLED_RanksShareAResult) {
  static float* shared = nullptr;
  static std::barrier<> gate(2);
  on_ranks(2, [](Rank& me) {
    Buffers b(2);
    if (me.rank == 0) shared = b.out;
    gate.arrive_and_wait();
    EXPECT_EQ(ncclAllReduce(b.in, shared, kCount, ncclFloat, ncclSum, me.comm, me.stream), ncclSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    gate.arrive_and_wait();
  });
}

// --- ordered ---
TEST(Planted, DISABLED_Joined) {
  on_ranks(4, [](Rank& me) {
    Buffers b(4);
    for (int i = 0; i < 10; ++i) {
      b.fill(b.in, b.other);
      b.join(b.other, me.stream);
      all_reduce(me, b);
      b.join(me.stream, b.other);
      b.fill(b.out, b.other);
      b.join(b.other, me.stream);
      EXPECT_EQ(ncclAllGather(b.in, b.out, kCount, ncclFloat, me.comm, me.stream), ncclSuccess);
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclSend(b.in, kCount, ncclFloat, (me.rank + 1) % 4, me.comm, me.stream), ncclSuccess);
      EXPECT_EQ(ncclRecv(b.out, kCount, ncclFloat, (me.rank + 3) % 4, me.comm, me.stream), ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
      b.join(me.stream, b.other);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  });
  printf("out: done\n");
}
TEST(Planted, DISABLED_InPlaceAndCaptured) {
  on_ranks(2, [](Rank& me) {
    Buffers b(2);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    EXPECT_EQ(cudaStreamBeginCapture(me.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    b.fill(b.in, me.stream);
    EXPECT_EQ(ncclAllReduce(b.in, b.in, kCount, ncclFloat, ncclSum, me.comm, me.stream), ncclSuccess);
    b.fill(b.in, me.stream);
    EXPECT_EQ(cudaStreamEndCapture(me.stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(cudaGraphLaunch(exec, me.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    b.fill(b.in, b.other);
    EXPECT_EQ(cudaStreamSynchronize(b.other), cudaSuccess);
  });
  printf("out: done\n");
}
// A barrier through a collective: rank 1 may touch what rank 0 wrote before it (peer memory), and only that.
void through_collective(bool before) {
  static float* shared = nullptr;
  static std::barrier<> gate(2);
  on_ranks(2, [before](Rank& me) {
    Buffers b(2);
    cudaDeviceEnablePeerAccess(1 - me.rank, 0);
    if (me.rank == 0) {
      EXPECT_EQ(cudaMalloc(&shared, kBytes), cudaSuccess);
    }
    gate.arrive_and_wait();
    if (me.rank == 0 && before) b.fill(shared, me.stream);
    all_reduce(me, b);
    if (me.rank == 0 && !before) b.fill(shared, me.stream);
    if (me.rank == 1) {
      EXPECT_EQ(cudaMemcpyPeerAsync(b.in, 1, shared, 0, kBytes, me.stream), cudaSuccess);
    }
    gate.arrive_and_wait();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    gate.arrive_and_wait();
  });
}
TEST(Planted, DISABLED_OrderedThroughTheCollective) {
  through_collective(true);
  printf("out: done\n");
}
TEST(Planted, DISABLED_AfterTheCollective) { through_collective(false); }

}  // namespace

TEST(CollectiveRaces, PlantedOnesAreFound) {
  for (const char* test : {"MissingJoinAfter", "MissingJoinBefore", "SendBeforeJoin", "RanksShareAResult",
                           "AfterTheCollective"}) {
    for (int seed = 1; seed <= 3; ++seed) {
      const std::string said = child("SIMGPU_RACES=report SIMGPU_SEED=" + std::to_string(seed), test);
      EXPECT_NE(said.find("simgpu: race:"), std::string::npos) << test << " seed " << seed;
      EXPECT_EQ(said.find("FAILED"), std::string::npos) << test << " seed " << seed << "\n" << said;
    }
  }
  EXPECT_NE(child("SIMGPU_RACES=report", "MissingJoinAfter").find("ncclAllReduce"), std::string::npos);
  EXPECT_EQ(child("SIMGPU_RACES=off", "MissingJoinAfter"), "");
}
TEST(CollectiveRaces, CorrectProgramsAreQuiet) {
  for (const char* test : {"Joined", "InPlaceAndCaptured", "OrderedThroughTheCollective"}) {
    for (int seed = 1; seed <= 3; ++seed) {
      EXPECT_EQ(child("SIMGPU_RACES=report SIMGPU_SEED=" + std::to_string(seed), test), "out: done\n")
          << test;
    }
  }
}

}  // namespace simgpu::testing
