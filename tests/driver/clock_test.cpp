// Virtual time is repeatable, the clocks differ as documented, seeds change orders and nothing else. Each
// case runs a program of this binary in a fresh process, since clock and seed are read once.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/base/clock.h"
#include "tests/driver/driver_test.h"
#include "tests/rerun.h"

namespace {
struct Ran {
  std::string out, timeline;
};
Ran child(const std::string& environment, const std::string& test) {
  char path[] = "/tmp/simgpu_timeline_XXXXXX";
  const int fd = mkstemp(path);
  Ran ran;
  ran.out = shunt::test::rerun(environment + " SIMGPU_TIMELINE=" + path, "Program." + test, "^out:");
  ran.timeline = driver_test::read_file(path);
  close(fd);
  unlink(path);
  return ran;
}

struct Program : driver_test::Driver {};
}  // namespace

// Four streams with events between them, copies and kernels; prints a checksum and the total time.
TEST_F(Program, DISABLED_Mixed) {
  load();
  constexpr int kStreams = 4, kCells = 1024;
  CUstream s[kStreams];
  CUevent e[kStreams], begin, end;
  CUdeviceptr cells[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&cells[i], kCells * 4));
    OK(cuMemsetD32(cells[i], unsigned(i), kCells));
  }
  OK(cuCtxSynchronize());
  OK(cuEventCreate(&begin, 0));
  OK(cuEventCreate(&end, 0));
  OK(cuEventRecord(begin, s[0]));
  for (int i = 1; i < kStreams; ++i) OK(cuStreamWaitEvent(s[i], begin, 0));
  for (int round = 0; round < 25; ++round) {
    for (int i = 0; i < kStreams; ++i) {
      int add = round + i, rounds = 50 * (i + 1);
      OK(run(kernel("burn"), {&cells[i], &rounds}, s[i], 2, 128));
      OK(run(kernel("add_value"), {&cells[i], &add}, s[i]));
      OK(cuEventRecord(e[i], s[i]));
    }
    for (int i = 0; i < kStreams; ++i) {
      OK(cuStreamWaitEvent(s[i], e[(i + 1) % kStreams], 0));
      OK(cuMemcpyDtoDAsync(cells[i] + 2048, cells[(i + 1) % kStreams], 1024, s[i]));
      OK(cuEventRecord(e[i], s[i]));
    }
    for (int i = 0; i < kStreams; ++i) OK(cuStreamWaitEvent(s[(i + 1) % kStreams], e[i], 0));
  }
  for (int i = 0; i < kStreams; ++i) {
    OK(cuEventRecord(e[i], s[i]));
    OK(cuStreamWaitEvent(s[0], e[i], 0));
  }
  OK(cuEventRecord(end, s[0]));
  OK(cuCtxSynchronize());
  unsigned sum = 0;
  for (int i = 0; i < kStreams; ++i) {
    std::vector<unsigned> v(kCells);
    OK(cuMemcpyDtoH(v.data(), cells[i], kCells * 4));
    for (unsigned x : v) sum = sum * 31 + x;
  }
  float ms = 0;
  OK(cuEventElapsedTime(&ms, begin, end));
  printf("out: sum %u\nout: ms %.9f\n", sum, double(ms));
}

// Four host threads drive one device each way they like; what they print depends on the order in which they
// entered.
TEST_F(Program, DISABLED_Threads) {
  load();
  CUdeviceptr cell;
  OK(cuMemAlloc(&cell, 4096));
  OK(cuMemsetD32(cell, 0, 1024));
  OK(cuCtxSynchronize());
  CUfunction burn = kernel("burn");
  std::vector<std::thread> threads;
  std::mutex order_mutex;
  std::string order;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      cuCtxSetCurrent(context);
      CUstream s;
      cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
      for (int i = 0; i < 12; ++i) {
        volatile double x = 1;
        for (int k = 0; k < 1000 * ((t * 7 + i * 3) % 5); ++k) x = x * 1.0001;  // uneven work between calls
        CUdeviceptr p = cell + CUdeviceptr(t) * 1024;
        int rounds = 100 + 50 * t;
        void* args[] = {&p, &rounds};
        cuLaunchKernel(burn, 1, 1, 1, 32, 1, 1, 0, s, args, nullptr);
        if (i % 4 == 3) cuStreamSynchronize(s);
        std::lock_guard<std::mutex> lock(order_mutex);
        order += char('a' + t);
      }
    });
  }
  for (auto& t : threads) t.join();
  printf("out: %s\n", order.c_str());
}

// Two streams write one cell without an order between them.
TEST_F(Program, DISABLED_Racy) {
  load();
  CUstream a, b;
  CUdeviceptr cell;
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&cell, 4));
  for (int i = 0; i < 3; ++i) {
    int one = 1, two = 2;
    OK(run(kernel("set_value"), {&cell, &one}, a));
    OK(run(kernel("set_value"), {&cell, &two}, b));
  }
  OK(cuCtxSynchronize());
  printf("out: %d\n", read_int(cell));
}

TEST_F(Program, DISABLED_HostWork) {
  volatile double x = 1;
  CUevent a, b;
  OK(cuEventCreate(&a, 0));
  OK(cuEventCreate(&b, 0));
  OK(cuEventRecord(a, nullptr));
  for (int i = 0; i < 20000000; ++i) x = x * 1.0000001;
  OK(cuEventRecord(b, nullptr));
  OK(cuEventSynchronize(b));
  float ms = 0;
  OK(cuEventElapsedTime(&ms, a, b));
  printf("out: %.6f\n", double(ms));
}

TEST(Clock, SameSeedSameTimeline) {
  const Ran first = child("", "Mixed"), second = child("", "Mixed");
  EXPECT_FALSE(first.out.empty());
  EXPECT_EQ(first.out, second.out);
  EXPECT_GT(first.timeline.size(), 10000u);
  EXPECT_EQ(first.timeline, second.timeline);
  const Ran seeded = child("SIMGPU_SEED=7", "Mixed"), again = child("SIMGPU_SEED=7", "Mixed");
  EXPECT_EQ(seeded.timeline, again.timeline);
}

TEST(Clock, SeedsDoNotChangeResultsOfOrderedPrograms) {
  const std::string expected = child("", "Mixed").out.substr(0, 14);
  for (int seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(child("SIMGPU_SEED=" + std::to_string(seed), "Mixed").out.substr(0, 14), expected) << seed;
  }
}

TEST(Clock, SeedsReachOtherOrdersOfRacyPrograms) {
  std::set<std::string> seen;
  for (int seed = 0; seed < 16; ++seed) seen.insert(child("SIMGPU_SEED=" + std::to_string(seed), "Racy").out);
  EXPECT_TRUE(seen.count("out: 1\n")) << seen.size();
  EXPECT_TRUE(seen.count("out: 2\n")) << seen.size();
}

TEST(Clock, ThreadsEnterInADecidedOrder) {
  const Ran first = child("SIMGPU_SEED=5", "Threads"), second = child("SIMGPU_SEED=5", "Threads");
  EXPECT_EQ(first.out.size(), 6u + 48u);
  EXPECT_EQ(first.timeline, second.timeline);
  std::set<std::string> orders;
  for (int seed = 0; seed < 5; ++seed)
    orders.insert(child("SIMGPU_SEED=" + std::to_string(seed), "Threads").timeline);
  EXPECT_GE(orders.size(), 4u);
  char path[] = "/tmp/simgpu_schedule_XXXXXX";
  close(mkstemp(path));
  const Ran recorded = child(std::string("SIMGPU_SEED=9 SIMGPU_SCHEDULE=") + path, "Threads");
  EXPECT_GT(driver_test::read_file(path).size(), 120u);
  const Ran replayed = child(std::string("SIMGPU_SEED=9 SIMGPU_SCHEDULE=") + path, "Threads");
  EXPECT_EQ(recorded.timeline, replayed.timeline);
  const Ran other_seed = child(std::string("SIMGPU_SEED=0 SIMGPU_SCHEDULE=") + path, "Threads");
  EXPECT_EQ(other_seed.out.size(), recorded.out.size());
  unlink(path);
}

TEST(Clock, HybridChargesTheHostsOwnTime) {
  const double pure = atof(child("SIMGPU_CLOCK=virtual", "HostWork").out.substr(4).c_str());
  const double hybrid = atof(child("SIMGPU_CLOCK=hybrid", "HostWork").out.substr(4).c_str());
  const double none = atof(child("SIMGPU_CLOCK=null", "HostWork").out.substr(4).c_str());
  EXPECT_LT(pure, 0.01);
  EXPECT_GT(hybrid, 5.0);
  EXPECT_EQ(none, 0.0);
}
// shunt asks a simulated driver for its clock by name; a name that drifts apart would leave its engines in
// real time without anybody noticing.
TEST(Clock, ShuntFindsSimgpusClock) {
  shunt::clock::adopt_simgpu([](const char*, const char* symbol) { return dlsym(RTLD_DEFAULT, symbol); });
  EXPECT_TRUE(shunt::clock::is_virtual());
  shunt::clock::set_source(nullptr);
}
