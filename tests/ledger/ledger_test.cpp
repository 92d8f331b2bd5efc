// The ledger: promises, pressure, waiting, life and death of processes, damage.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <new>
#include <thread>

#include "runtime/ledger/layout.h"
#include "tests/ledger/scoped_ledger.h"

using namespace ledger_test;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kUnchecked = ~0ull;

TEST(Ledger, ReserveCommitCancel) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  ASSERT_EQ(d, 0);
  EXPECT_EQ(ledger->device(uuid(2)), 1);
  EXPECT_EQ(ledger->device(uuid(1)), 0);
  EXPECT_EQ(ledger->device_count(), 2);
  Request request{d, 600, 1000};
  Reservation a, b;
  ASSERT_EQ(ledger->reserve({&request, 1}, a), Grant::granted);
  EXPECT_EQ(ledger->view(d).reserved, 600u);
  EXPECT_EQ(ledger->reserve({&request, 1}, b), Grant::would_not_fit) << "1000 are free, 600 of them promised";
  EXPECT_TRUE(b.parts.empty());
  EXPECT_EQ(ledger->view(d).reserved, 600u);
  uint64_t really[] = {640};
  ledger->commit(a, really);
  EXPECT_EQ(ledger->view(d).reserved, 0u);
  EXPECT_EQ(ledger->view(d).used, 640u);
  EXPECT_EQ(ledger->view(d).processes, 1u);
  ASSERT_EQ(ledger->reserve({&request, 1}, b), Grant::granted);
  ledger->cancel(b);
  EXPECT_EQ(ledger->view(d).reserved, 0u);
  ledger->sub_used(d, 640);
  EXPECT_EQ(ledger->view(d).used, 0u);
  EXPECT_EQ(ledger->view(d).uuid, uuid(1));
}

TEST(Ledger, CountsNeverWrap) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  ledger->add_used(d, 10);
  ledger->sub_used(d, 100);
  EXPECT_EQ(ledger->view(d).used, 0u);
  ledger->sub_spilled(d, 1);
  EXPECT_EQ(ledger->view(d).spilled, 0u);
  Request huge[] = {{d, UINT64_MAX - 1, 1000}, {d, UINT64_MAX - 1, 1000}};
  Reservation r;
  EXPECT_EQ(ledger->reserve(huge, r), Grant::would_not_fit);
  Request wrong{99, 1, 1000};
  EXPECT_EQ(ledger->reserve({&wrong, 1}, r), Grant::unavailable);
  ledger->add_used(-1, 5);
  ledger->sub_used(1000, 5);
}

TEST(Ledger, AGangGetsAllOrNothing) {
  Scope scope;
  auto ledger = scope.open();
  int a = ledger->device(uuid(1)), b = ledger->device(uuid(2));
  Request requests[] = {{b, 500, 400}, {a, 500, 1000}};
  Reservation r;
  EXPECT_EQ(ledger->reserve(requests, r), Grant::would_not_fit);
  EXPECT_EQ(ledger->view(a).reserved + ledger->view(b).reserved, 0u);
  requests[0].free_now = kUnchecked;
  EXPECT_EQ(ledger->reserve(requests, r), Grant::granted);
  EXPECT_EQ(ledger->view(a).reserved, 500u);
  EXPECT_EQ(ledger->view(b).reserved, 500u);
  Request twice[] = {{a, 300, 1000}, {a, 300, 1000}};
  Reservation s;
  EXPECT_EQ(ledger->reserve(twice, s), Grant::would_not_fit) << "parts on one device add up";
}

TEST(Ledger, ManyProcessesAreNeverPromisedMoreThanThereIs) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1)), e = ledger->device(uuid(2));
  auto* held = new (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
      std::atomic<int>(0);
  std::vector<pid_t> pids;
  for (int p = 0; p < 8; ++p) {
    pid_t pid = fork();
    if (pid == 0) {
      auto mine = scope.open();
      int granted = 0;
      for (int i = 0; granted < 300 && i < 10'000'000; ++i) {
        Request one[] = {{i % 2 ? d : e, 400, 1000}, {i % 2 ? e : d, 400, 1000}};
        Reservation r;
        if (mine->reserve(one, r) != Grant::granted) {
          sched_yield();
          continue;
        }
        ++granted;
        // A sum over the slots is not one moment; what is held at one moment is counted here.
        bool too_much = held->fetch_add(400) + 400 > 1000;
        if (i % 16 == 0) sched_yield();
        held->fetch_sub(400);
        if (too_much) _exit(9);
        mine->cancel(r);
      }
      _exit(granted == 300 ? 0 : 8);
    }
    pids.push_back(pid);
  }
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ledger->sweep();
  EXPECT_EQ(ledger->view(d).reserved, 0u);
}

TEST(Ledger, ADeadProcessLeavesNothing) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  pid_t pid = child_that_stays([&] {
    auto* mine = scope.open().release();
    Request request{d, 300, 1000};
    Reservation r;
    mine->add_used(d, 500);
    mine->add_spilled(d, 40);
    mine->want(d, 70);
    return mine->reserve({&request, 1}, r) == Grant::granted;
  });
  DeviceView v = ledger->view(d);
  EXPECT_EQ(v.used, 500u);
  EXPECT_EQ(v.reserved, 300u);
  EXPECT_EQ(v.spilled, 40u);
  EXPECT_EQ(ledger->wanted_by_others(d), 70u);
  auto list = ledger->processes();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].pid, static_cast<uint32_t>(pid));
  EXPECT_EQ(list[1].name, list[0].name);
  EXPECT_TRUE(list[0].self);
  ASSERT_EQ(list[1].devices.size(), 1u);
  EXPECT_EQ(list[1].devices[0].used, 500u);
  uint32_t word = ledger->pressure_word(d);

  kill(pid, SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(ledger->processes()[1].alive) << "a corpse is not alive";
  EXPECT_EQ(ledger->sweep(), 1);
  waitpid(pid, nullptr, 0);
  v = ledger->view(d);
  EXPECT_EQ(v.used + v.reserved + v.spilled + v.wanted, 0u);
  EXPECT_EQ(ledger->freed_by_others(d), 500u) << "its memory is free now";
  EXPECT_NE(ledger->pressure_word(d), word) << "and nobody waits any more";
  EXPECT_EQ(ledger->processes().size(), 1u);
}

TEST(Ledger, PressureIsSeenByOthersOnly) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  uint32_t word = ledger->pressure_word(d);
  ledger->want(d, 500);
  EXPECT_NE(ledger->pressure_word(d), word);
  EXPECT_EQ(ledger->wanted_by_others(d), 0u);
  EXPECT_EQ(in_child([&] { return scope.open()->wanted_by_others(d) == 500 ? 0 : 1; }), 0);
  word = ledger->pressure_word(d);
  ledger->want(d, 500);
  EXPECT_EQ(ledger->pressure_word(d), word) << "no news, no change";
  ledger->want(d, 0);
  EXPECT_NE(ledger->pressure_word(d), word);
}

TEST(Ledger, WaitingEndsWhenOthersFree) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  EXPECT_FALSE(ledger->wait_freed(d, ledger->freed_by_others(d), 30));
  ledger->add_used(d, 100);
  ledger->sub_used(d, 100);
  EXPECT_FALSE(ledger->wait_freed(d, ledger->freed_by_others(d), 10)) << "own frees do not count";
  uint64_t seen = ledger->freed_by_others(d);
  pid_t pid = child_that_stays([&] {
    auto* mine = scope.open().release();
    mine->add_used(d, 1000);
    std::thread([=] {
      std::this_thread::sleep_for(30ms);
      mine->sub_used(d, 600);
    }).detach();
    return true;
  });
  auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(ledger->wait_freed(d, seen, 5000));
  auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_LT(waited, 1s);
  EXPECT_EQ(ledger->freed_by_others(d), seen + 600);
  // The rest comes back by its death, without anybody sweeping for us.
  seen = ledger->freed_by_others(d);
  std::thread killer([=] {
    std::this_thread::sleep_for(20ms);
    end(pid);
  });
  EXPECT_TRUE(ledger->wait_freed(d, seen, 5000));
  EXPECT_GE(ledger->freed_by_others(d), seen + 400);
  killer.join();
}

TEST(Ledger, AForkedChildIsInertUntilItOpensItsOwn) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  ledger->add_used(d, 100);
  EXPECT_EQ(in_child([&] {
              if (ledger->registered()) return 1;
              ledger->add_used(d, 1000);
              ledger->sub_used(d, 50);
              Request request{d, 1, kUnchecked};
              Reservation r;
              if (ledger->reserve({&request, 1}, r) != Grant::unavailable) return 2;
              auto mine = scope.open();
              mine->add_used(d, 7);
              return mine->view(d).used == 107 ? 0 : 3;
            }),
            0);
  ledger->sweep();
  EXPECT_EQ(ledger->view(d).used, 100u);
}

TEST(Ledger, PromisesSurviveExecMemoryDoesNot) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  EXPECT_EQ(in_child([&] {
              auto* mine = scope.open().release();
              Request request{d, 300, 1000};
              Reservation r;
              mine->add_used(d, 500);
              if (mine->reserve({&request, 1}, r) != Grant::granted) return 1;
              execl(LEDGER_SECOND_IMAGE, LEDGER_SECOND_IMAGE, scope.options.scope.c_str(), nullptr);
              return 2;
            }),
            0);
}

TEST(Ledger, ReadersSeeACommitWholly) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  constexpr uint64_t kAll = 50000;
  std::vector<Reservation> promises(kAll);
  Request one{d, 1, kUnchecked};
  for (Reservation& r : promises) ASSERT_EQ(ledger->reserve({&one, 1}, r), Grant::granted);
  std::thread writer([&] {
    for (size_t i = 0; i < promises.size(); ++i) {
      ledger->commit(promises[i]);
      if (i % 100 == 0) std::this_thread::yield();
    }
  });
  uint64_t between = 0;
  for (uint64_t used = 0; used < kAll;) {
    DeviceView v = ledger->view(d);
    ASSERT_EQ(v.used + v.reserved, kAll) << "neither twice nor lost, at any moment";
    ASSERT_GE(v.used, used);
    between += v.used != used;
    used = v.used;
  }
  writer.join();
  EXPECT_GT(between, 1u);
}

TEST(Ledger, AStoppedHolderStopsNobody) {
  Scope scope;
  scope.options.lock_timeout_ms = 50;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  // A process stopped while it holds the table's lock: taken here directly, through the mapping.
  int fd = shm_open(Ledger::file_name(scope.options).c_str(), O_RDWR, 0);
  auto* file = static_cast<File*>(mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  close(fd);
  pid_t pid = child_that_stays([&] {
    scope.open().release()->add_used(d, 10);
    return shunt::ledger::lock(&file->mutex, 1000);
  });
  kill(pid, SIGSTOP);
  Request request{d, 1, kUnchecked};
  Reservation r;
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ledger->reserve({&request, 1}, r), Grant::granted) << "needs no lock";
  EXPECT_EQ(in_child([&] { return scope.open() ? 0 : 1; }), 0) << "nor does joining";
  EXPECT_EQ(ledger->device(uuid(1)), d);
  EXPECT_EQ(ledger->device(uuid(2)), -1) << "a new device does, and gives up in time";
  EXPECT_EQ(ledger->sweep(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 500ms);
  end(pid);
  EXPECT_EQ(ledger->device(uuid(2)), 1) << "dead, the lock is free";
  EXPECT_EQ(ledger->sweep(), 2);
  munmap(file, sizeof(File));
}

TEST(Ledger, DamagedOrForeignFilesAreRefusedInOneLine) {
  Scope scope;
  std::string name = Ledger::file_name(scope.options), error;
  EXPECT_EQ(Ledger::inspect(scope.options, error), nullptr);
  EXPECT_NE(error.find("does not exist"), std::string::npos) << error;
  auto refused = [&](const char* words) {
    EXPECT_EQ(Ledger::open(scope.options, error), nullptr);
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  };
  int fd = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(ftruncate(fd, 100), 0);
  refused("is damaged");
  ASSERT_EQ(ftruncate(fd, sizeof(File)), 0);
  ASSERT_EQ(pwrite(fd, "garbage!", 8, 0), 8);
  refused("is damaged");
  ASSERT_TRUE(Ledger::remove(scope.options, error));
  EXPECT_TRUE(Ledger::open(scope.options, error)) << "repaired: " << error;
  close(fd);
  fd = shm_open(name.c_str(), O_RDWR, 0);
  struct stat info {};
  fstat(fd, &info);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  fchmod(fd, 0644);
  refused("open to others");
  fchmod(fd, 0600);
  uint32_t version = 99;
  ASSERT_EQ(pwrite(fd, &version, 4, 8), 4);
  refused("another version");
  if (geteuid() == 0) {
    version = kVersion;
    ASSERT_EQ(pwrite(fd, &version, 4, 8), 4);
    ASSERT_EQ(fchown(fd, 65534, 65534), 0);
    refused("belongs to somebody else");
  }
  close(fd);
}

TEST(Ledger, ProcessesOfAnotherPidNamespaceLiveUntilTheyEnd) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a pid namespace";
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(7);
    pid_t inner = fork();
    if (inner == 0) {
      // /proc still shows the outer namespace, as in a container without its own mount it would not: the
      // identity is what this process reads of itself either way.
      auto* mine = scope.open().release();
      bool ok = mine != nullptr;
      if (ok) mine->add_used(d, 900);
      if (write(fds[1], &ok, 1) != 1) _exit(1);
      for (;;) pause();
    }
    int status;
    waitpid(inner, &status, 0);
    _exit(0);
  }
  char ok = 0;
  close(fds[1]);
  if (read(fds[0], &ok, 1) != 1) {
    int status = 0;
    waitpid(outer, &status, 0);
    GTEST_SKIP() << "no pid namespaces here";
  }
  ASSERT_EQ(ok, 1);
  EXPECT_EQ(ledger->sweep(), 0);
  EXPECT_EQ(ledger->view(d).used, 900u);
  auto list = ledger->processes();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_FALSE(list[1].same_namespace);
  EXPECT_TRUE(list[1].alive);
  // Ending the namespace's first process ends the namespace; the outer one only waits for it.
  std::ifstream children("/proc/" + std::to_string(outer) + "/task/" + std::to_string(outer) + "/children");
  pid_t inner = 0;
  children >> inner;
  ASSERT_GT(inner, 0);
  kill(inner, SIGKILL);
  waitpid(outer, nullptr, 0);
  EXPECT_EQ(ledger->sweep(), 1);
  EXPECT_EQ(ledger->view(d).used, 0u);
}

TEST(Ledger, SixtyFourProcessesAtOnce) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  std::vector<pid_t> pids;
  for (int p = 0; p < 64; ++p) {
    pid_t pid = fork();
    if (pid == 0) {
      char c;
      close(go[1]);
      if (read(go[0], &c, 1) != 0) _exit(1);  // all start when the parent closes its end
      auto* mine = scope.open().release();
      if (!mine || mine->device(uuid(1)) != d) _exit(2);
      for (int i = 0; i < 20; ++i) {
        Request request{d, 10, kUnchecked};
        Reservation r;
        if (mine->reserve({&request, 1}, r) != Grant::granted) _exit(3);
        mine->commit(r);
      }
      _exit(0);  // without giving the slot back
    }
    pids.push_back(pid);
  }
  close(go[0]);
  close(go[1]);
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(ledger->view(d).used, 64u * 200);
  EXPECT_EQ(ledger->sweep(), 64);
  EXPECT_EQ(ledger->view(d).used, 0u);
}

}  // namespace
