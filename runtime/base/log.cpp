#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace shunt::log {
namespace {

constexpr int kLineBytes = 512, kRingLines = 64;
constexpr std::string_view kNames[] = {"base",      "config",  "link",  "model", "exec",
                                       "placement", "memory",  "graph", "comm",  "precision",
                                       "trace",     "monitor", "ledger"};
static_assert(std::size(kNames) == static_cast<size_t>(Subsys::count));

std::atomic<uint8_t> g_level{static_cast<uint8_t>(Level::warn)};
std::atomic<uint32_t> g_mask{~0u};
std::atomic<int> g_fd{STDERR_FILENO};

// One thread at a time has a line: a writer that meets a busy one (64 lines further round) leaves the ring
// alone.
struct Line {
  std::atomic<bool> busy{false};
  uint32_t length = 0;
  char text[kLineBytes];
};
Line g_ring[kRingLines];
std::atomic<uint32_t> g_next{0};

void write_all(int fd, const char* data, size_t size) {
  const int saved = errno;  // the application's errno must survive our logging
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    data += n;
    size -= static_cast<size_t>(n);
  }
  errno = saved;
}

void emit(bool print, const char* tag, const char* format, va_list args) {
  char text[kLineBytes];
  int used = snprintf(text, sizeof text, "[shunt] %s", tag);
  const int more = vsnprintf(text + used, sizeof text - static_cast<size_t>(used) - 1, format, args);
  used += std::clamp(more, 0, kLineBytes - used - 2);
  for (int i = 0; i < used; i++)
    if (text[i] == '\n') text[i] = ' ';
  text[used++] = '\n';
  Line& line = g_ring[g_next.fetch_add(1, std::memory_order_relaxed) % kRingLines];
  if (!line.busy.exchange(true, std::memory_order_acquire)) {
    memcpy(line.text, text, static_cast<size_t>(used));
    line.length = static_cast<uint32_t>(used);
    line.busy.store(false, std::memory_order_release);
  }
  if (print) write_all(g_fd.load(std::memory_order_relaxed), text, static_cast<size_t>(used));
}

}  // namespace

std::string_view subsys_name(Subsys subsys) { return kNames[static_cast<size_t>(subsys)]; }

bool parse_level(std::string_view text, Level& out) {
  constexpr std::string_view names[] = {"off", "error", "warn", "info", "debug"};
  for (size_t i = 0; i < std::size(names); i++)
    if (names[i] == text) return out = static_cast<Level>(i), true;
  return false;
}

uint32_t parse_subsystems(std::string_view list, std::string_view& unknown) {
  uint32_t only = 0, never = 0;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (item.empty()) continue;
    const bool negative = item[0] == '^';
    const std::string_view name = negative ? item.substr(1) : item;
    const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames)) {
      if (unknown.empty()) unknown = item;
      continue;
    }
    (negative ? never : only) |= 1u << (found - std::begin(kNames));
  }
  return (only ? only : ~0u) & ~never;
}

bool init(Level level, std::string_view subsystems, std::string_view path) {
  std::string_view unknown;
  g_level.store(static_cast<uint8_t>(level), std::memory_order_relaxed);
  g_mask.store(parse_subsystems(subsystems, unknown), std::memory_order_relaxed);
  if (path.empty()) return true;
  char name[1024];
  size_t n = 0;
  for (size_t i = 0; i < path.size() && n + 16 < sizeof name; i++) {
    if (path[i] == '%' && i + 1 < path.size() && path[i + 1] == 'p') {
      n += static_cast<size_t>(snprintf(name + n, 16, "%d", static_cast<int>(getpid())));
      i++;
    } else {
      name[n++] = path[i];
    }
  }
  name[n] = 0;
  const int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  g_fd.store(fd, std::memory_order_relaxed);
  return true;
}

bool enabled(Level level, Subsys subsys) {
  return static_cast<uint8_t>(level) <= g_level.load(std::memory_order_relaxed) &&
         (g_mask.load(std::memory_order_relaxed) >> static_cast<uint32_t>(subsys) & 1);
}

void write(Level level, Subsys subsys, const char* format, ...) {
  static constexpr const char* kTags[] = {"", "error: ", "warning: ", "", "debug: "};
  va_list args;
  va_start(args, format);
  emit(enabled(level, subsys), kTags[static_cast<size_t>(level)], format, args);
  va_end(args);
}

void say(const char* format, ...) {
  va_list args;
  va_start(args, format);
  emit(g_level.load(std::memory_order_relaxed) != static_cast<uint8_t>(Level::off), "", format, args);
  va_end(args);
}

void dump(int fd) {
  const uint32_t next = g_next.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < kRingLines; i++) {
    Line& line = g_ring[(next + i) % kRingLines];
    if (line.busy.exchange(true, std::memory_order_acquire)) continue;
    if (line.length) write_all(fd, line.text, line.length);
    line.busy.store(false, std::memory_order_release);
  }
}

}  // namespace shunt::log
