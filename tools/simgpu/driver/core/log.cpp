#include "tools/simgpu/driver/core/log.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

namespace simgpu::driver {
namespace {
LogLevel configured_level() {
  const char* text = getenv("SIMGPU_LOG");
  if (!text) return LogLevel::warn;
  if (!strcmp(text, "error")) return LogLevel::error;
  if (!strcmp(text, "info")) return LogLevel::info;
  if (!strcmp(text, "debug")) return LogLevel::debug;
  return LogLevel::warn;
}
void write_line(const char* format, va_list args) {
  char line[2048];
  int n = snprintf(line, sizeof line, "simgpu: ");
  n += vsnprintf(line + n, sizeof line - n - 1, format, args);
  if (n > static_cast<int>(sizeof line) - 2) n = sizeof line - 2;
  line[n++] = '\n';
  ssize_t ignored = write(2, line, n);
  (void)ignored;
}
}  // namespace

bool log_enabled(LogLevel level) {
  static const LogLevel limit = configured_level();
  return level <= limit;
}

void log_line(LogLevel level, const char* format, ...) {
  if (!log_enabled(level)) return;
  va_list args;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
}

void log_once(LogLevel level, const char* key, const char* format, ...) {
  if (!log_enabled(level)) return;
  static std::mutex* mutex = new std::mutex;
  static auto* seen = new std::set<std::string>;
  {
    std::lock_guard<std::mutex> lock(*mutex);
    if (!seen->insert(key).second) return;
  }
  va_list args;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
}
}  // namespace simgpu::driver
