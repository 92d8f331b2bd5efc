#include "tools/simgpu/driver/core/schedule.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tools/simgpu/driver/core/clock.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/thread_state.h"

namespace simgpu::driver {
namespace {
using Time = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::microseconds(50);
constexpr auto kPatience = std::chrono::seconds(5);  // for a thread that computes between two calls
// For one that has once used it up: it spins until others have moved on (a watchdog), and would do so every
// time.
constexpr auto kSpinnerPatience = std::chrono::milliseconds(5);
constexpr auto kStrangerPatience = std::chrono::milliseconds(50);  // for a thread that has not called yet
constexpr auto kStrangerPatienceBusy = std::chrono::seconds(2);    // while it runs
constexpr auto kReplayPatience = std::chrono::seconds(10);

struct Thread {
  pid_t tid = 0;
  int logical = -1;  // by creation, given when first chosen among
  bool waiting = false, inside = false;
  bool spins = false;
  bool aside = false;     // waits for others inside a call: goes on only when nobody else can
  uint64_t clock_ns = 0;  // virtual, at arrival; of a new thread: the latest of all, when it is considered
};

struct Scheduler {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<pid_t, Thread> threads;               // those that have called
  std::map<pid_t, Time::time_point> first_seen;  // threads that have not called
  std::set<pid_t> own, strangers;                // never waited for (any more)
  Thread* holder = nullptr;
  int next_logical = 0;
  uint64_t random = 0;
  bool seeded = false;
  std::vector<int> replay;
  size_t position = 0;
  FILE* record = nullptr;
  nlink_t tasks_at_enter = 0;
  std::atomic<int> arriving{0};  // threads that may sleep on our own mutex just now: on the way
};

pid_t my_tid() {
  static thread_local pid_t tid __attribute__((tls_model("initial-exec"))) = 0;
  if (!tid) tid = pid_t(syscall(SYS_gettid));
  return tid;
}

Scheduler& scheduler() {
  static Scheduler* instance = [] {
    auto* s = new Scheduler;
    if (const char* text = getenv("SIMGPU_SEED")) {
      s->random = strtoull(text, nullptr, 0);
      s->seeded = s->random != 0;
      s->random = s->random * 0x9E3779B97F4A7C15u + 7;
    }
    const char* path = getenv("SIMGPU_SCHEDULE");
    if (path && *path) {
      if (FILE* file = fopen(path, "re")) {
        int logical;
        while (fscanf(file, "%d", &logical) == 1) s->replay.push_back(logical);
        fclose(file);
      }
      if (s->replay.empty()) {
        s->record = fopen(path, "we");
        if (!s->record)
          log_line(LogLevel::error, "SIMGPU_SCHEDULE=%s cannot be written", path);
        else
          setvbuf(s->record, nullptr, _IOLBF, 0);
      }
    }
    return s;
  }();
  return *instance;
}

nlink_t task_count() {
  struct stat info;
  return stat("/proc/self/task", &info) == 0 ? info.st_nlink : 0;
}
std::vector<pid_t> tasks() {
  std::vector<pid_t> result;
  if (DIR* folder = opendir("/proc/self/task")) {
    while (const dirent* entry = readdir(folder)) {
      if (const pid_t tid = pid_t(atoi(entry->d_name))) result.push_back(tid);
    }
    closedir(folder);
  }
  return result;
}
// 'R' or 'D': about to do something; 'S' and others: asleep; 0: gone.
char state_of(pid_t tid) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* end = strrchr(text, ')');
  return end && end[1] ? end[2] : 0;
}
bool active(char state) { return state == 'R' || state == 'D'; }

// Whether some thread may still arrive by itself. Drops threads that have ended.
bool somebody_on_the_way(Scheduler& s, Time::duration waited) {
  bool on_the_way = false;
  for (auto it = s.threads.begin(); it != s.threads.end();) {
    Thread& t = it->second;
    if (t.waiting || t.inside) {
      ++it;
      continue;
    }
    const char state = state_of(t.tid);
    if (!state) {
      it = s.threads.erase(it);
      continue;
    }
    if (active(state)) {
      t.spins |= waited >= kPatience;
      on_the_way |= waited < (t.spins ? Time::duration(kSpinnerPatience) : Time::duration(kPatience));
    }
    ++it;
  }
  for (const pid_t tid : tasks()) {
    if (s.threads.count(tid) || s.own.count(tid) || s.strangers.count(tid)) continue;
    const auto age = Time::now() - s.first_seen.emplace(tid, Time::now()).first->second;
    if (age < kStrangerPatience || (age < kStrangerPatienceBusy && active(state_of(tid)))) {
      on_the_way = true;
    } else {
      s.strangers.insert(tid);
    }
  }
  // Asked last: a thread seen asleep above may be asleep on our mutex.
  return on_the_way || s.arriving.load() > 0;
}

Thread* choose(Scheduler& s) {
  std::vector<Thread*> waiting;
  for (auto& [tid, t] : s.threads) {
    if (t.waiting) waiting.push_back(&t);  // by tid: creation order
  }
  for (Thread* t : waiting) {
    if (t->logical >= 0) continue;
    t->logical = s.next_logical++;
    t->clock_ns = latest_host_clock();
  }
  const auto others =
      std::partition(waiting.begin(), waiting.end(), [](const Thread* t) { return !t->aside; });
  Thread* const stalled = others != waiting.end() ? *others : nullptr;
  if (others != waiting.begin())
    waiting.erase(others, waiting.end());
  else
    return stalled;
  if (s.position < s.replay.size()) {
    for (Thread* t : waiting) {
      if (t->logical == s.replay[s.position]) return t;
    }
    return stalled;  // the one whose turn it is has not come yet
  }
  if (s.seeded) {
    s.random = s.random * 6364136223846793005u + 1442695040888963407u;
    return waiting[(s.random >> 33) % waiting.size()];
  }
  return *std::min_element(waiting.begin(), waiting.end(), [](const Thread* a, const Thread* b) {
    return a->clock_ns != b->clock_ns ? a->clock_ns < b->clock_ns : a->logical < b->logical;
  });
}

void take_turn(Scheduler& s, std::unique_lock<std::mutex>& lock, bool aside) {
  Thread& me = s.threads[my_tid()];
  me.tid = my_tid();
  me.clock_ns = thread_state().clock_ns;
  me.aside = aside;
  const bool first = me.logical < 0;
  me.waiting = true;
  s.strangers.erase(me.tid);
  const auto since = Time::now();
  while (s.holder != &me) {
    if (!s.holder) {
      const auto waited = Time::now() - since;
      if (!somebody_on_the_way(s, waited)) {
        Thread* next = choose(s);
        if (!next && waited > kReplayPatience) {
          log_line(LogLevel::error,
                   "SIMGPU_SCHEDULE: the program went another way at entry %zu: recording's order dropped",
                   s.position);
          s.replay.clear();
          continue;
        }
        if (next) {
          s.holder = next;
          if (!next->aside) ++s.position;
          if (s.record && !next->aside) fprintf(s.record, "%d\n", next->logical);
          s.changed.notify_all();
          continue;
        }
      }
      s.changed.wait_for(lock, kLook);
    } else {
      s.changed.wait_for(lock, std::chrono::milliseconds(20));
    }
  }
  me.waiting = me.aside = false;
  me.inside = true;
  if (first) {  // identity and time by the decided order, not by who came first
    thread_state().id = uint64_t(me.logical) + 1;
    thread_state().clock_ns = latest_host_clock();
  }
  s.tasks_at_enter = task_count();
}

void give_turn(Scheduler& s) {
  auto it = s.threads.find(my_tid());
  if (it == s.threads.end() || s.holder != &it->second) return;
  // Threads born while this one was inside are ours (the executor's).
  if (task_count() != s.tasks_at_enter) {
    for (const pid_t tid : tasks()) {
      if (!s.threads.count(tid) && !s.strangers.count(tid)) s.own.insert(tid);
    }
  }
  it->second.inside = false;
  s.holder = nullptr;
  s.changed.notify_all();
}
}  // namespace

bool schedule_active() {
  static const bool on = [] {
    const char *seed = getenv("SIMGPU_SEED"), *path = getenv("SIMGPU_SCHEDULE");
    return (seed && *seed) || (path && *path);
  }();
  return on;
}

void schedule_enter() {
  Scheduler& s = scheduler();
  s.arriving.fetch_add(1);
  std::unique_lock<std::mutex> lock(s.mutex);
  s.arriving.fetch_sub(1);
  take_turn(s, lock, false);
}

void schedule_leave() {
  Scheduler& s = scheduler();
  std::lock_guard<std::mutex> lock(s.mutex);
  give_turn(s);
}

void schedule_step_aside() {
  Scheduler& s = scheduler();
  std::unique_lock<std::mutex> lock(s.mutex);
  auto it = s.threads.find(my_tid());
  if (it == s.threads.end() || s.holder != &it->second) return;
  give_turn(s);
  take_turn(s, lock, true);
}

void schedule_own_thread() {
  Scheduler& s = scheduler();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.own.insert(my_tid());
}
}  // namespace simgpu::driver
