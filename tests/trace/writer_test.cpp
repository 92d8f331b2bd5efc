// The writer: everything written is readable, whatever happens to the process, the disk or the threads.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "tests/trace/trace_fixture.h"

namespace shunt::trace {
namespace {

TEST_F(TraceTest, RoundTrip) {
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    setting("graphs", "off", "flag");
    const uint64_t id = decide({.feature = Feature::oom,
                                .action = Action::oom_spill,
                                .reason = Reason::memory_infeasible,
                                .outcome = Outcome::failed,
                                .device = 3,
                                .stream = 7,
                                .context = 8,
                                .bytes = 1ull << 33,
                                .stack = 5,
                                .correlation = 6});
    EXPECT_NE(id, 0u);
    call(17, 2, 700, 0xABC, 0x5, 99);
    counter(string_id("queue"), 42);
    EXPECT_EQ(string_id("queue"), string_id("queue"));
    EXPECT_NE(string_id("queue"), string_id("other"));
    stop();
  });
  ASSERT_EQ(status, 0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 1u);
  const Reader& r = readers[0];
  EXPECT_EQ(r.state(), FileState::closed);
  EXPECT_STREQ(r.header().run_id, "test");
  EXPECT_EQ(r.losses().dropped + r.losses().torn_chunks + r.losses().bad_chunks, 0u);
  int decisions = 0, calls = 0, counters = 0, clocks = 0, ends = 0;
  std::string setting_text;
  r.for_each([&](const RecordHeader& h, uint32_t tid) {
    EXPECT_EQ(h.size % 16, 0);
    if (h.type == static_cast<uint16_t>(RecordType::decision)) {
      const auto& d = reinterpret_cast<const DecisionRecord&>(h);
      decisions++;
      EXPECT_EQ(d.device, 3);
      EXPECT_EQ(static_cast<Reason>(d.reason), Reason::memory_infeasible);
      EXPECT_EQ(d.bytes, 1ull << 33);
      EXPECT_EQ(d.stack, 5u);
      EXPECT_EQ(tid, r.header().pid);
    } else if (h.type == static_cast<uint16_t>(RecordType::call)) {
      const auto& c = reinterpret_cast<const CallRecord&>(h);
      calls++;
      EXPECT_EQ(c.slot, 17);
      EXPECT_EQ(c.result, 700);
    } else if (h.type == static_cast<uint16_t>(RecordType::counter)) {
      counters++;
      EXPECT_EQ(r.string(h.id), "queue");
      EXPECT_EQ(reinterpret_cast<const CounterRecord&>(h).value, 42u);
    } else if (h.type == static_cast<uint16_t>(RecordType::clock)) {
      const auto& c = reinterpret_cast<const ClockRecord&>(h);
      clocks++;
      EXPECT_LE(c.monotonic_before, c.monotonic_after);
    } else if (h.type == static_cast<uint16_t>(RecordType::setting)) {
      setting_text = r.string(h.id);
    } else if (h.type == static_cast<uint16_t>(RecordType::end)) {
      ends++;
    }
  });
  EXPECT_EQ(decisions, 1);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(counters, 1);
  EXPECT_GE(clocks, 2);
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(setting_text, "graphs=off (flag)");
}

TEST_F(TraceTest, NothingIsLostOnSigkill) {
  // A child reports each record through a pipe after writing it and is killed at different points.
  for (const int after : {1, 100, 4095, 9000}) {
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
      start(options_);
      for (uint64_t i = 0;; i++) {
        decide({.feature = Feature::comm, .bytes = i});
        const char one = 1;
        if (i % 50 == 0 || i < 200) {
          if (write(pipes[1], &one, 1) != 1) _exit(1);
          if (i >= static_cast<uint64_t>(after)) pause();
        }
      }
    }
    close(pipes[1]);
    char buffer[512];
    ssize_t got = 0;
    // The child pauses once it passed `after`.
    const int expected_reports = after < 200 ? after + 1 : 200 + (after + 49) / 50 - 200 / 50 + 1;
    while (got < expected_reports) {
      const ssize_t n = read(pipes[0], buffer, sizeof buffer);
      if (n <= 0) break;
      got += n;
    }
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    close(pipes[0]);
    auto files = trace_files(options_.directory);
    ASSERT_FALSE(files.empty());
    auto reader = Reader::open(options_.directory + "/" +
                               std::string(files.back().substr(files.back().rfind('/') + 1)));
    ASSERT_TRUE(reader.ok());
    uint64_t next = 0;
    const Reader* mine = &*reader;
    std::vector<Reader> all;
    for (const auto& f : files) {
      auto r = Reader::open(f);
      ASSERT_TRUE(r.ok());
      if (static_cast<pid_t>(r->header().pid) == child) all.push_back(std::move(r.value()));
    }
    ASSERT_EQ(all.size(), 1u);
    mine = &all[0];
    mine->for_each([&](const RecordHeader& h, uint32_t) {
      if (h.type != static_cast<uint16_t>(RecordType::decision)) return;
      EXPECT_EQ(reinterpret_cast<const DecisionRecord&>(h).bytes, next);
      next++;
    });
    EXPECT_GT(next, static_cast<uint64_t>(after));
    EXPECT_EQ(mine->losses().torn_chunks, 0u);
    EXPECT_EQ(mine->state(), FileState::writing);
  }
}

// Random moments instead of chosen ones: the child writes without pause, and publishes after each record how
// many it has committed in memory that outlives it. What it published before it died must be in the file.
TEST_F(TraceTest, SigkillAtAHundredRandomPointsLosesNoCommittedRecord) {
  auto* committed = static_cast<std::atomic<uint64_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(committed, MAP_FAILED);
  std::mt19937 random(20261201);
  uint64_t most = 0, least = ~uint64_t{0};
  for (int round = 0; round < 100; round++) {
    committed->store(0);
    FileOptions options = options_;
    options.directory = std::string(root_) + "/kill" + std::to_string(round) + ".shunt";
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!start(options)) _exit(1);
      for (uint64_t i = 0;; i++) {
        decide({.feature = Feature::comm, .bytes = i});
        committed->store(i + 1, std::memory_order_release);
      }
    }
    // The first record first, so that a slow start on a busy machine is not taken for a kill.
    while (committed->load(std::memory_order_acquire) == 0 && waitpid(child, nullptr, WNOHANG) == 0)
      usleep(50);
    usleep(static_cast<useconds_t>(random() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const uint64_t published = committed->load(std::memory_order_acquire);
    const auto files = trace_files(options.directory);
    ASSERT_EQ(files.size(), 1u) << "round " << round;
    auto reader = Reader::open(files[0]);
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    uint64_t next = 0;
    reader->for_each([&](const RecordHeader& h, uint32_t) {
      if (h.type != static_cast<uint16_t>(RecordType::decision)) return;
      EXPECT_EQ(reinterpret_cast<const DecisionRecord&>(h).bytes, next);
      next++;
    });
    // At most the one record that was committed and not yet published is more.
    EXPECT_GE(next, published) << "round " << round;
    EXPECT_LE(next, published + 1) << "round " << round;
    EXPECT_EQ(reader->losses().torn_chunks, 0u);
    EXPECT_EQ(reader->losses().dropped, 0u);
    most = std::max(most, published);
    least = std::min(least, published);
    unlink(files[0].c_str());
  }
  EXPECT_GT(least, 0u);
  EXPECT_GT(most, least);  // the points did differ
  munmap(committed, 4096);
}

TEST_F(TraceTest, ThreadsShareChunksAndIdsAreUnique) {
  constexpr int kThreads = 64, kEach = 2000;
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    // Two generations of threads: the second takes over what the first left half full.
    for (int generation = 0; generation < 2; generation++) {
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; t++) threads.emplace_back([] { decide_n(kEach); });
      for (auto& t : threads) t.join();
    }
    stop();
  });
  ASSERT_EQ(status, 0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 1u);
  std::set<uint64_t> ids;
  std::map<uint32_t, uint64_t> last;
  readers[0].for_each([&](const RecordHeader& h, uint32_t) {
    if (h.type == static_cast<uint16_t>(RecordType::decision)) ids.insert(h.id);
  });
  EXPECT_EQ(ids.size(), static_cast<size_t>(kThreads) * kEach * 2);
  EXPECT_EQ(readers[0].losses().dropped, 0u);
  // 4 MiB of records a generation in chunks of 256 KiB; without handing chunks on it would be one more per
  // thread.
  EXPECT_LE(readers[0].chunks().size(), 2u * kThreads);
}

TEST_F(TraceTest, CapStopsAndCounts) {
  options_.max_bytes = 1 << 20;
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    decide_n(40000);
    stop();
  });
  ASSERT_EQ(status, 0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 1u);
  EXPECT_EQ(readers[0].state(), FileState::stopped_at_cap);
  EXPECT_LE(readers[0].file_bytes(), (1u << 20) + kHeaderBytes);
  const uint64_t kept = count(readers[0], RecordType::decision);
  EXPECT_GT(kept, 10000u);
  EXPECT_GE(kept + readers[0].losses().dropped, 40000u);
  EXPECT_LE(kept + readers[0].losses().dropped, 40003u);  // clock and END found no room either
}

TEST_F(TraceTest, RingKeepsTheNewest) {
  options_.ring_bytes = 2 << 20;
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    string_id("kept for ever");
    decide_n(100000);
    stop();
  });
  ASSERT_EQ(status, 0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 1u);
  const Reader& r = readers[0];
  EXPECT_EQ(r.state(), FileState::closed);
  EXPECT_LE(r.file_bytes(), (2u << 20) + kHeaderBytes);
  std::set<uint64_t> seen;
  r.for_each([&](const RecordHeader& h, uint32_t) {
    if (h.type == static_cast<uint16_t>(RecordType::decision))
      seen.insert(reinterpret_cast<const DecisionRecord&>(h).bytes);
  });
  ASSERT_GT(seen.size(), 20000u);
  EXPECT_EQ(*seen.rbegin(), 99999u);
  EXPECT_EQ(*seen.rbegin() - *seen.begin() + 1, seen.size());  // the newest, without a hole
  EXPECT_GT(r.losses().overwritten, 70000u);
  EXPECT_EQ(r.losses().dropped, 0u);
  EXPECT_EQ(r.string(1), "kept for ever");
}

TEST_F(TraceTest, RingWithManyThreadsNeverTearsARecord) {
  options_.ring_bytes = 2 << 20;
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    std::vector<std::thread> threads;
    for (int t = 0; t < 12; t++) threads.emplace_back([] { decide_n(20000); });  // more threads than chunks
    for (auto& t : threads) t.join();
    stop();
  });
  ASSERT_EQ(status, 0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 1u);
  EXPECT_EQ(readers[0].losses().torn_chunks + readers[0].losses().bad_chunks, 0u);
  EXPECT_GT(count(readers[0], RecordType::decision), 1000u);
}

TEST_F(TraceTest, ForkedChildrenWriteTheirOwnFiles) {
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    decide_n(100);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      fork_child();
      decide_n(50, 1000);
      string_id("child");
      stop();
      _exit(0);
    }
    decide_n(100, 100);
    int inner = 0;
    waitpid(grandchild, &inner, 0);
    EXPECT_EQ(inner, 0);
    decide_n(10, 200);
    stop();
  });
  ASSERT_EQ(status, 0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 2u);
  std::multiset<uint64_t> counts;
  for (const Reader& r : readers) counts.insert(count(r, RecordType::decision));
  EXPECT_EQ(counts, (std::multiset<uint64_t>{50, 210}));
}

TEST_F(TraceTest, ASilentForkLeavesNoFile) {
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      fork_child();
      _exit(0);
    }
    int inner = 0;
    waitpid(grandchild, &inner, 0);
    stop();
  });
  ASSERT_EQ(status, 0);
  EXPECT_EQ(trace_files(options_.directory).size(), 1u);
}

TEST_F(TraceTest, FullDiskStopsRecordingAndNothingElse) {
  // A small tmpfs of our own is a real full disk. Mounting needs root; the next case covers the same path
  // without it.
  const std::string disk = std::string(root_) + "/disk";
  mkdir(disk.c_str(), 0755);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "mount: " << strerror(errno);
  options_.directory = disk + "/run.shunt";
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    decide_n(50000);
    string_id("after the disk was full");
    stop();
  });
  EXPECT_EQ(status, 0) << "the program must survive";
  {
    auto readers = read_all();
    ASSERT_EQ(readers.size(), 1u);
    EXPECT_EQ(readers[0].state(), FileState::stopped_disk_full);
    EXPECT_GT(count(readers[0], RecordType::decision), 5000u);
    EXPECT_GT(readers[0].losses().dropped, 10000u);
    EXPECT_EQ(readers[0].losses().torn_chunks, 0u);
  }
  umount2(disk.c_str(), MNT_DETACH);
}

TEST_F(TraceTest, FileSizeLimitOfTheProcessIsKept) {
  for (const rlim_t bytes : {rlim_t{8192}, rlim_t{300000}, rlim_t{1 << 20}}) {
    options_.directory = std::string(root_) + "/limit" + std::to_string(bytes) + ".shunt";
    const int status = in_child([&] {
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);  // SIGXFSZ stays at its default: it would end the child
      ASSERT_TRUE(start(options_));
      decide_n(50000);
      stop();
    });
    EXPECT_EQ(status, 0) << "the program must survive";
    auto readers = read_all();
    ASSERT_EQ(readers.size(), 1u);
    EXPECT_EQ(readers[0].state(), FileState::stopped_at_cap);
    EXPECT_GE(count(readers[0], RecordType::decision) + readers[0].losses().dropped, 50000u);
  }
}

TEST_F(TraceTest, UnwritableDirectoryOnlySwitchesTracingOff) {
  options_.directory = "/proc/no-such/run.shunt";
  const int status = in_child([&] {
    EXPECT_FALSE(start(options_));
    EXPECT_FALSE(active());
    EXPECT_NE(decide({}), 0u);  // ids exist without a trace
    stop();
  });
  EXPECT_EQ(status, 0);
}

TEST_F(TraceTest, SameProcessTwiceMakesTwoFiles) {
  const int status = in_child([&] {
    ASSERT_TRUE(start(options_));
    decide_n(3);
    stop();
    ASSERT_TRUE(start(options_));
    decide_n(4);
    stop();
  });
  ASSERT_EQ(status, 0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 2u);
  EXPECT_EQ(count(readers[0], RecordType::decision), 3u);
  EXPECT_EQ(count(readers[1], RecordType::decision), 4u);
}

}  // namespace
}  // namespace shunt::trace
