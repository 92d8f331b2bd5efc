// The elected sampler: one process reads NVML, all others read what it publishes, and death makes another one
// take over.
#include "runtime/monitor/sampler.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tools/simgpu/box/box.h"

using namespace shunt::monitor;
using namespace std::chrono_literals;

namespace {

class SamplerTest : public testing::Test {
 protected:
  void SetUp() override {
    simgpu::BoxSpec spec;
    std::string error;
    ASSERT_TRUE(simgpu::parse_box_spec("b200,rubin", "nvlink6", spec, error)) << error;
    ASSERT_TRUE(simgpu::Box::create_named(spec, box_name, error)) << error;
    box.reset(simgpu::Box::open_named(box_name, error));
    options.scope = box_name;
    options.period_ms = 20;
  }
  void TearDown() override {
    shm_unlink(Sampler::file_name(options).c_str());
    simgpu::Box::unlink_named(box_name);
  }
  // A process that takes part until it is killed. This one does not use NVML itself: its box would be another
  // one.
  pid_t participant() {
    pid_t pid = fork();
    if (pid == 0) {
      setenv("SIMGPU_BOX", box_name.c_str(), 1);
      std::string error;
      auto* sampler = Sampler::open(options, error).release();
      if (!sampler) _exit(1);
      for (;;) pause();
    }
    return pid;
  }
  std::unique_ptr<Sampler> reader() {
    std::string error;
    Sampler::Options only_read = options;
    only_read.may_sample = false;
    std::unique_ptr<Sampler> sampler = Sampler::open(only_read, error);
    EXPECT_TRUE(sampler) << error;
    return sampler;
  }
  template <class F>
  static bool eventually(F f) {
    for (int i = 0; i < 500; ++i) {
      if (f()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  std::string box_name;
  std::unique_ptr<simgpu::Box> box;
  Sampler::Options options;
};

TEST_F(SamplerTest, ReadersGetWhatTheSamplerSees) {
  auto read = reader();
  Samples s;
  EXPECT_FALSE(read->latest(s)) << "nobody has sampled yet";
  EXPECT_FALSE(read->elected());
  ASSERT_TRUE(box->reserve(1, 12345));
  pid_t pid = participant();
  uint8_t bytes[16];
  box->uuid(1, bytes);
  std::array<uint8_t, 16> uuid;
  std::copy(bytes, bytes + 16, uuid.begin());
  ASSERT_TRUE(eventually([&] { return read->latest(s); }));
  EXPECT_EQ(s.sampler_pid, static_cast<uint32_t>(pid));
  ASSERT_EQ(s.devices.size(), 2u);
  const Sample* d = s.find(uuid);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->used, 12345u);
  EXPECT_EQ(d->total, box->spec().devices[1].memory_bytes);
  EXPECT_EQ(d->links, 36u);
  EXPECT_EQ(d->limit_w, 2300);
  EXPECT_TRUE(d->os_accounted);
  uint64_t number = s.number;
  EXPECT_TRUE(eventually([&] { return read->latest(s) && s.number > number + 2; })) << "it goes on sampling";
  box->release(1, 345);
  EXPECT_TRUE(eventually([&] { return read->latest(s) && s.find(uuid)->used == 12000; }));
  end(pid);
}

TEST_F(SamplerTest, OneSamplesAndDeathElectsAnother) {
  pid_t pids[3] = {participant(), participant(), participant()};
  auto read = reader();
  Samples s;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(eventually([&] {
      if (!read->latest(s)) return false;
      for (pid_t pid : pids)
        if (s.sampler_pid == static_cast<uint32_t>(pid)) return true;
      return false;
    })) << "round "
        << round;
    uint32_t sampler = s.sampler_pid;
    std::this_thread::sleep_for(100ms);
    ASSERT_TRUE(read->latest(s));
    EXPECT_EQ(s.sampler_pid, sampler) << "the office does not wander";
    for (pid_t& pid : pids)
      if (sampler == static_cast<uint32_t>(pid)) {
        end(pid);
        pid = 0;
      }
    uint64_t number = s.number;
    if (round < 2) {
      EXPECT_TRUE(
          eventually([&] { return read->latest(s) && s.number > number && s.sampler_pid != sampler; }));
    }
  }
  uint64_t number = s.number;
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(!read->latest(s) || s.number == number) << "nobody is left to sample";
}

TEST_F(SamplerTest, KilledWhileWritingItDoesNotBlockReaders) {
  auto read = reader();
  for (int i = 0; i < 10; ++i) {
    options.period_ms = 1;
    pid_t pid = participant();
    Samples s;
    ASSERT_TRUE(eventually([&] { return read->latest(s) && s.sampler_pid == static_cast<uint32_t>(pid); }));
    std::this_thread::sleep_for(std::chrono::microseconds(137 * i));
    end(pid);
    auto start = std::chrono::steady_clock::now();
    read->latest(s);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 100ms);
  }
}

TEST_F(SamplerTest, AForkOfTheSamplerDoesNotKeepTheOffice) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  pid_t parent = fork();
  if (parent == 0) {
    setenv("SIMGPU_BOX", box_name.c_str(), 1);
    std::string error;
    auto sampler = Sampler::open(options, error);
    while (!sampler->elected()) std::this_thread::sleep_for(1ms);
    pid_t child = fork();
    if (child == 0) {
      sampler.reset();  // no thread here to join
      for (;;) pause();
    }
    if (write(fds[1], &child, sizeof child) != sizeof child) _exit(1);
    for (;;) pause();
  }
  pid_t child = 0;
  ASSERT_EQ(read(fds[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  end(parent);
  pid_t next = participant();
  auto read = reader();
  Samples s;
  EXPECT_TRUE(eventually([&] { return read->latest(s) && s.sampler_pid == static_cast<uint32_t>(next); }));
  end(next);
  kill(child, SIGKILL);
}

TEST_F(SamplerTest, ForeignFilesAreRefused) {
  std::string name = Sampler::file_name(options), error;
  int fd = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(pwrite(fd, "garbage!", 8, 0), 8);
  EXPECT_EQ(Sampler::open(options, error), nullptr);
  EXPECT_NE(error.find("damaged"), std::string::npos) << error;
  fchmod(fd, 0666);
  EXPECT_EQ(Sampler::open(options, error), nullptr);
  EXPECT_NE(error.find("open to others"), std::string::npos) << error;
  close(fd);
}

}  // namespace
