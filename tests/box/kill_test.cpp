// SIGKILL at every step of every operation: the box stays usable and nothing stays reserved.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <random>

#include "tools/simgpu/box/mapping.h"
#include "tools/simgpu/box/segment.h"

using simgpu::Box;

namespace {

long steps_left = -1;
void count_down() {
  if (steps_left > 0 && --steps_left == 0) kill(getpid(), SIGKILL);
}

struct Named {
  std::string name, error;
  simgpu::BoxSpec spec;
  explicit Named(const char* sim) {
    EXPECT_TRUE(simgpu::parse_box_spec(sim, "nvlink5", spec, error)) << error;
    EXPECT_TRUE(Box::create_named(spec, name, error)) << error;
  }
  ~Named() { Box::unlink_named(name); }
  std::unique_ptr<Box> open() { return std::unique_ptr<Box>(Box::open_named(name, error)); }
};

// Every operation that writes shared state, sweeping included: `corpse` leaves a dead slot with memory
// before.
void script(Box& box) {
  box.attach(1);
  box.reserve(0, 1000);
  box.reserve(1, 500);
  box.release(0, 300);
  box.processes(0);
  box.reserve(0, box.capacity_bytes(0));  // does not fit: sweeps
  box.free_bytes(1);
  box.detach(1);
  box.release(1, 500);
}

TEST(BoxKill, AtEveryStep) {
  Named named("b200:2@mem=1GiB");
  auto box = named.open();
  ASSERT_TRUE(box->reserve(0, 77));
  uint64_t capacity = box->capacity_bytes(0);
  size_t bytes = 0;
  const simgpu::Segment* segment = simgpu::map_named(named.name, bytes, named.error);
  ASSERT_TRUE(segment);
  int kills = 0;
  for (long step = 1;; ++step) {
    ASSERT_LT(step, 5000);
    // A neighbour that dies with memory, so that the victim sweeps a dead slot at some step. Not reaped until
    // later.
    pid_t corpse = fork();
    if (corpse == 0) {
      Box& mine = *named.open().release();
      mine.reserve(0, 5000);
      _exit(0);
    }
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(corpse), &info, WEXITED | WNOWAIT);
    pid_t victim = fork();
    if (victim == 0) {
      steps_left = step;
      simgpu::box_step = count_down;
      script(*named.open().release());
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(victim, &status, 0), victim);
    waitpid(corpse, nullptr, 0);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    kills += killed;
    // The first lock after a death already restores the totals, before anybody sweeps.
    box->own_bytes(0);
    for (int d = 0; d < 2; ++d) {
      uint64_t sum = 0;
      for (const simgpu::ProcessSlot& slot : segment->slots)
        if (slot.pid != 0) sum += slot.used[d];
      ASSERT_EQ(box->state(d).used_bytes, sum) << "step " << step << " device " << d;
    }
    auto list = box->processes(0);
    ASSERT_EQ(list.size(), 1u) << "step " << step;
    ASSERT_EQ(list[0].bytes, 77u);
    ASSERT_EQ(box->state(0).used_bytes, 77u) << "step " << step;
    ASSERT_EQ(box->state(1).used_bytes, 0u) << "step " << step;
    ASSERT_TRUE(box->reserve(0, capacity - 77)) << "step " << step;
    box->release(0, capacity - 77);
    if (!killed) {
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      break;
    }
  }
  EXPECT_GT(kills, 30) << "the script must pass enough steps to mean something";
}

TEST(BoxKill, RandomKillsUnderLoad) {
  Named named("b200@mem=64MiB");
  auto box = named.open();
  uint64_t capacity = box->capacity_bytes(0);
  std::mt19937 random(7);
  constexpr int kWorkers = 6;
  pid_t pids[kWorkers] = {};
  auto start = [&](int w) {
    pids[w] = fork();
    if (pids[w] != 0) return;
    Box& mine = *named.open().release();
    std::mt19937 own(static_cast<unsigned>(getpid()));
    for (;;) {
      uint64_t bytes = own() % (capacity / 3);
      if (!mine.reserve(0, bytes)) continue;
      if (mine.state(0).used_bytes > capacity) _exit(9);
      mine.release(0, bytes);
    }
  };
  for (int w = 0; w < kWorkers; ++w) start(w);
  for (int i = 0; i < 150; ++i) {
    usleep(random() % 3000);
    int w = static_cast<int>(random() % kWorkers);
    kill(pids[w], SIGKILL);
    int status = 0;
    waitpid(pids[w], &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a worker saw more used than there is";
    start(w);
  }
  for (pid_t pid : pids) kill(pid, SIGKILL);
  for (pid_t pid : pids) waitpid(pid, nullptr, 0);
  EXPECT_TRUE(box->processes(0).empty());
  EXPECT_EQ(box->state(0).used_bytes, 0u);
  EXPECT_TRUE(box->reserve(0, capacity));
}

TEST(BoxKill, SlotsAreReusedAfterDeath) {
  Named named("b200");
  auto box = named.open();
  for (int i = 0; i < simgpu::kMaxProcesses + 50; ++i) {
    pid_t pid = fork();
    if (pid == 0) {
      auto mine = named.open();
      _exit(mine->reserve(0, 1) ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_EQ(status, 0) << i;
  }
  EXPECT_TRUE(box->processes(0).empty());
}

}  // namespace
