// Is the process that left a mark in shared memory still the one that has this pid? Pids are reused, so the
// start time goes with them. Header only, no state but a cache of the own identity; any thread;
// async-signal-safe.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace shunt {

// Start time in clock ticks since boot; 0 when there is no such process, or only its corpse (zombie).
inline uint64_t process_start_time(uint32_t pid) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  // The command name may hold blanks and parentheses: fields are counted from its last ')'. State is field 3.
  const char* at = std::strrchr(text, ')');
  if (!at || at[1] != ' ') return 0;
  at += 2;
  char state = *at;
  unsigned long long threads = 0, start = 0;
  for (int field = 4; field <= 22; ++field) {
    at = std::strchr(at, ' ');
    if (!at) return 0;
    ++at;
    if (field == 20) threads = std::strtoull(at, nullptr, 10);
    if (field == 22) start = std::strtoull(at, nullptr, 10);
  }
  // A leader that called pthread_exit is a zombie too, but its process lives on in the other threads.
  if (state == 'X' || (state == 'Z' && threads <= 1)) return 0;
  return start == 0 ? 1 : start;
}

inline uint64_t own_start_time() {
  static std::atomic<uint64_t> cached_pid{0}, cached_start{0};
  uint64_t pid = static_cast<uint64_t>(getpid());
  if (cached_pid.load(std::memory_order_acquire) == pid) return cached_start.load(std::memory_order_relaxed);
  uint64_t start = process_start_time(static_cast<uint32_t>(pid));
  cached_start.store(start, std::memory_order_relaxed);
  cached_pid.store(pid, std::memory_order_release);
  return start;
}

}  // namespace shunt
