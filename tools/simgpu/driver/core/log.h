// simgpu's own messages on stderr. SIMGPU_LOG=error|warn|info|debug (default warn). Any thread; no state to
// destroy.
#pragma once
#include <cstdarg>

namespace simgpu::driver {
enum class LogLevel { error, warn, info, debug };
bool log_enabled(LogLevel level);
// Writes one line "simgpu: ..." with a single write(2), so lines of threads and processes do not mix.
void log_line(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Like log_line(warn), but each distinct format prints once per process.
void log_once(LogLevel level, const char* key, const char* format, ...) __attribute__((format(printf, 3, 4)));
}  // namespace simgpu::driver
