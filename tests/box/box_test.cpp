// The box: accounting, identity, clock, events, private and named segments.
#include "tools/simgpu/box/box.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <thread>

using simgpu::Box;
using simgpu::BoxSpec;

namespace {

BoxSpec spec_of(const char* sim, const char* links = "nvlink5") {
  BoxSpec spec;
  std::string error;
  EXPECT_TRUE(simgpu::parse_box_spec(sim, links, spec, error)) << error;
  return spec;
}
std::unique_ptr<Box> private_box(const char* sim) {
  std::string error;
  std::unique_ptr<Box> box(Box::create_private(spec_of(sim), error));
  EXPECT_TRUE(box) << error;
  return box;
}
// A named box that goes with the test.
struct Named {
  std::string name, error;
  explicit Named(const char* sim, const char* links = "nvlink5") {
    EXPECT_TRUE(Box::create_named(spec_of(sim, links), name, error)) << error;
  }
  ~Named() { Box::unlink_named(name); }
  std::unique_ptr<Box> open() {
    std::unique_ptr<Box> box(Box::open_named(name, error));
    EXPECT_TRUE(box) << error;
    return box;
  }
};
// Runs a function in a child; its return value is the exit code.
template <class F>
int in_child(F f) {
  pid_t pid = fork();
  if (pid == 0) _exit(f());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Box, AccountsToTheByte) {
  auto box = private_box("b200@mem=1GiB");
  uint64_t capacity = box->capacity_bytes(0);
  EXPECT_LT(capacity, 1ull << 30);
  EXPECT_EQ(capacity + box->state(0).reserved_bytes, 1ull << 30);
  EXPECT_TRUE(box->reserve(0, capacity - 1));
  EXPECT_EQ(box->free_bytes(0), 1u);
  EXPECT_FALSE(box->reserve(0, 2));
  EXPECT_FALSE(box->reserve(0, ~0ull)) << "no wrap";
  EXPECT_TRUE(box->reserve(0, 1));
  EXPECT_TRUE(box->reserve(0, 0));
  EXPECT_EQ(box->free_bytes(0), 0u);
  box->release(0, capacity);
  EXPECT_EQ(box->free_bytes(0), capacity);
  EXPECT_EQ(box->state(0).used_bytes, 0u);
}

TEST(Box, ReleaseOfMoreThanReservedDoesNotWrap) {
  auto box = private_box("b200");
  EXPECT_TRUE(box->reserve(0, 100));
  testing::internal::CaptureStderr();
  box->release(0, 200);
  box->release(0, 200);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("200 bytes given back"), std::string::npos);
  EXPECT_EQ(said.find('\n'), said.size() - 1) << "said once";
  EXPECT_EQ(box->state(0).used_bytes, 0u);
}

TEST(Box, ThreadsNeverExceedCapacity) {
  auto box = private_box("b200@mem=64MiB");
  uint64_t capacity = box->capacity_bytes(0), chunk = capacity / 5;
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        if (!box->reserve(0, chunk)) continue;
        if (box->state(0).used_bytes > capacity) exceeded = true;
        box->release(0, chunk);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(box->state(0).used_bytes, 0u);
}

TEST(Box, IdentityIsStableAndDistinct) {
  auto box = private_box("b200:4,rubin:4"), again = private_box("b200:4,rubin:4");
  std::set<std::string> uuids, buses;
  for (int d = 0; d < box->device_count(); ++d) {
    EXPECT_EQ(box->uuid_string(d), again->uuid_string(d));
    EXPECT_EQ(box->uuid_string(d).size(), 40u);
    EXPECT_EQ(box->uuid_string(d).substr(0, 4), "GPU-");
    uuids.insert(box->uuid_string(d));
    buses.insert(box->pci_bus_id(d));
  }
  EXPECT_EQ(uuids.size(), 8u);
  EXPECT_EQ(buses.size(), 8u);
  EXPECT_EQ(box->pci_bus_id(0), "00000000:1B:00.0");
}

TEST(Box, ClockOnlyRises) {
  auto box = private_box("b200");
  EXPECT_EQ(box->merge_clock(100), 100u);
  EXPECT_EQ(box->merge_clock(50), 100u);
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0, last = 0; i < 10000; ++i) {
        uint64_t now = box->merge_clock(1000 * t + i);
        EXPECT_GE(now, last);
        last = now;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(box->merge_clock(0), 13999u);
}

TEST(Box, NamedBoxIsOneBoxForAllProcesses) {
  Named named("b200:2,rubin@mem=8GiB", "pcie6");
  auto box = named.open();
  EXPECT_EQ(box->spec().devices[2].memory_bytes, 8ull << 30);
  EXPECT_EQ(box->spec().link[0][2], simgpu::LinkKind::pcie);
  EXPECT_EQ(box->spec().links, "pcie6");
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  pid_t pid = fork();
  if (pid == 0) {
    std::string error;
    Box* mine = Box::open_named(named.name, error);
    bool ok = mine && mine->reserve(2, 1000);
    if (ok) mine->attach(1);
    mine->merge_clock(777);
    char c = ok ? 1 : 0;
    if (write(go[1], &c, 1) != 1) _exit(1);
    pause();
  }
  char c = 0;
  ASSERT_EQ(read(go[0], &c, 1), 1);
  EXPECT_EQ(c, 1);
  EXPECT_EQ(box->state(2).used_bytes, 1000u);
  EXPECT_EQ(box->merge_clock(0), 777u);
  auto list = box->processes(2);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].pid, static_cast<uint32_t>(pid));
  EXPECT_EQ(list[0].bytes, 1000u);
  EXPECT_EQ(box->processes(1).size(), 1u) << "attached without memory";
  EXPECT_EQ(box->processes(0).size(), 0u);

  kill(pid, SIGKILL);
  // Not reaped yet: a corpse holds no device memory. (Wait until it is one.)
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(box->processes(2).empty());
  EXPECT_EQ(box->state(2).used_bytes, 0u);
  waitpid(pid, nullptr, 0);
}

TEST(Box, FreeMemoryOfADeadNeighbourComesBackByLooking) {
  Named named("b200@mem=1GiB");
  auto box = named.open();
  uint64_t capacity = box->capacity_bytes(0);
  EXPECT_EQ(in_child([&] {
              std::string error;
              return Box::open_named(named.name, error)->reserve(0, capacity) ? 0 : 1;
            }),
            0);
  usleep(5000);
  EXPECT_EQ(box->free_bytes(0), capacity);
  EXPECT_TRUE(box->reserve(0, capacity));
}

TEST(Box, AForkedChildHasItsOwnSlot) {
  Named named("b200");
  auto box = named.open();
  ASSERT_TRUE(box->reserve(0, 1000));
  EXPECT_EQ(in_child([&] {
              if (box->own_bytes(0) != 0) return 1;
              if (!box->reserve(0, 10)) return 2;
              if (box->own_bytes(0) != 10) return 3;
              return box->processes(0).size() == 2 ? 0 : 4;
            }),
            0);
  EXPECT_EQ(box->own_bytes(0), 1000u);
  EXPECT_EQ(box->processes(0).size(), 1u);
}

TEST(Box, TwoLibrariesOfOneProcessShareThePrivateBox) {
  EXPECT_EQ(in_child([] {
              unsetenv("SIMGPU_BOX");
              setenv("SIMGPU_SPEC", "rubin@mem=2GiB", 1);
              void* a = dlopen(BOX_USER_A, RTLD_NOW | RTLD_LOCAL);
              void* b = dlopen(BOX_USER_B, RTLD_NOW | RTLD_LOCAL);
              if (!a || !b) return 1;
              auto reserve = reinterpret_cast<bool (*)(uint64_t)>(dlsym(a, "box_user_reserve"));
              auto used = reinterpret_cast<uint64_t (*)()>(dlsym(b, "box_user_used"));
              auto own = reinterpret_cast<uint64_t (*)()>(dlsym(b, "box_user_own"));
              // Both at once: the first use is where a second box could appear.
              uint64_t ignored = 0;
              std::thread other([&] { ignored = used(); });
              bool ok = reserve(4096);
              other.join();
              if (!ok) return 2;
              if (used() != 4096) return 3;
              if (own() != 4096) return 4;
              return Box::get()->spec().devices[0].profile->key == "rubin" ? 0 : 5;
            }),
            0);
}

TEST(Box, EnvironmentErrorsAreOneLineAndNull) {
  auto said = [](const char* variable, const char* value) {
    int pipe_fd[2];
    EXPECT_EQ(pipe(pipe_fd), 0);
    EXPECT_EQ(in_child([&] {
                dup2(pipe_fd[1], 2);
                unsetenv("SIMGPU_BOX");
                setenv(variable, value, 1);
                if (Box::get()) return 1;
                return Box::get() ? 2 : 0;
              }),
              0)
        << variable << "=" << value;
    close(pipe_fd[1]);
    char text[1024];
    ssize_t n = read(pipe_fd[0], text, sizeof text);
    close(pipe_fd[0]);
    std::string out(text, n > 0 ? static_cast<size_t>(n) : 0);
    EXPECT_EQ(out.find('\n'), out.size() - 1) << "one line: " << out;
    return out;
  };
  EXPECT_NE(said("SIMGPU_SPEC", "b20:1").find("simgpu: unknown device model 'b20'"), std::string::npos);
  EXPECT_NE(said("SIMGPU_LINKS", "token-ring").find("unknown links"), std::string::npos);
  EXPECT_NE(said("SIMGPU_BOX", "/no-such-box").find("no box named '/no-such-box'"), std::string::npos);
}

TEST(Box, ForeignAndDamagedSegmentsAreRefused) {
  std::string name = "/simgpu-test-foreign-" + std::to_string(getpid()), error;
  int fd = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Box::open_named(name, error), nullptr);
  EXPECT_NE(error.find("not a simgpu box"), std::string::npos) << error;
  ASSERT_EQ(ftruncate(fd, 16 << 20), 0);
  EXPECT_EQ(Box::open_named(name, error), nullptr);
  EXPECT_NE(error.find("not a simgpu box"), std::string::npos) << error;
  close(fd);
  shm_unlink(name.c_str());

  Named named("b200");
  fd = shm_open(named.name.c_str(), O_RDWR, 0);
  uint32_t future = 99;
  ASSERT_EQ(pwrite(fd, &future, 4, 8), 4);
  close(fd);
  EXPECT_EQ(Box::open_named(named.name, error), nullptr);
  EXPECT_NE(error.find("version 99"), std::string::npos) << error;
}

TEST(Box, StaleBoxesOfKilledLaunchersAreRemoved) {
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  in_child([&] {
    std::string name, error;
    Box::create_named(spec_of("b200"), name, error);
    return write(out[1], name.c_str(), name.size()) > 0 ? 0 : 1;  // never unlinked
  });
  char text[256];
  ssize_t n = read(out[0], text, sizeof text);
  std::string stale(text, static_cast<size_t>(n)), error;
  std::unique_ptr<Box> view(Box::open_named(stale, error));
  ASSERT_TRUE(view) << error;
  view->attach(0);  // in use: has to stay
  { Named other("b200"); }
  {
    std::unique_ptr<Box> still(Box::open_named(stale, error));
    EXPECT_TRUE(still) << error;
  }
  EXPECT_EQ(in_child([&] {
              view.reset();
              return 0;
            }),
            0);
  view.reset();
  Named marker("b200");  // this process still has its slot there: stays
  EXPECT_EQ(shm_open(stale.c_str(), O_RDWR, 0) >= 0, true);
  Box::unlink_named(stale);

  in_child([&] {
    std::string name, e;
    Box::create_named(spec_of("b200"), name, e);
    return write(out[1], name.c_str(), name.size()) > 0 ? 0 : 1;
  });
  n = read(out[0], text, sizeof text);
  stale.assign(text, static_cast<size_t>(n));
  { Named other("b200"); }
  EXPECT_EQ(Box::open_named(stale, error), nullptr) << "nobody uses it and its launcher is gone";
}

TEST(Box, EventsWakeWaiters) {
  Named named("b200:2");
  auto box = named.open();
  uint32_t word = box->event_word();
  EXPECT_FALSE(box->wait_event(word, 5));
  std::thread raiser([&] {
    usleep(20000);
    auto other = named.open();
    other->raise_xid(1, 79);
  });
  EXPECT_TRUE(box->wait_event(word, 5000));
  raiser.join();
  EXPECT_EQ(box->state(1).xid, 79u);
  EXPECT_EQ(box->state(1).event_count, 1u);
  EXPECT_EQ(box->state(0).event_count, 0u);
}

TEST(Box, ObjectsGoWithTheBox) {
  std::string object, error;
  {
    Named named("b200");
    auto box = named.open(), other = named.open();
    EXPECT_NE(box->unique_id(), other->unique_id());
    object = box->object_name("mem", box->unique_id());
    EXPECT_EQ(object, named.name + ".mem-3");
    close(shm_open(object.c_str(), O_CREAT | O_RDWR, 0600));
  }
  EXPECT_LT(shm_open(object.c_str(), O_RDWR, 0), 0);
}

}  // namespace
