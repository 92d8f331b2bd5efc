// Log of shunt itself: one line per call on stderr (or SHUNT_LOG_FILE), prefix "[shunt] ", written with a
// single write(2) so that lines of several threads and processes never mix. The newest lines of every level
// also go to a ring that dump() prints. No allocation, no exception, no lock; async-signal-safe except for
// formatting. Any thread; usable before init() and at exit.
#pragma once
#include <cstdint>
#include <string_view>

namespace shunt::log {

enum class Level : uint8_t { off, error, warn, info, debug };
enum class Subsys : uint8_t {
  base,
  config,
  link,
  model,
  exec,
  placement,
  memory,
  graph,
  comm,
  precision,
  trace,
  monitor,
  ledger,
  count
};

// level: SHUNT_LOG; subsystems: SHUNT_LOG_SUBSYS, "graph,^comm" (only graph; never comm), empty for all;
// path: SHUNT_LOG_FILE with %p for the pid, empty for stderr. False when the file cannot be opened (stderr is
// used).
bool init(Level level, std::string_view subsystems, std::string_view path);
// Parses a subsystem list into a mask; unknown names are reported in `unknown` (first one).
uint32_t parse_subsystems(std::string_view list, std::string_view& unknown);
bool parse_level(std::string_view text, Level& out);
std::string_view subsys_name(Subsys);

bool enabled(Level level, Subsys subsys);
void write(Level level, Subsys subsys, const char* format, ...) __attribute__((format(printf, 3, 4)));
// Prints "[shunt] ..." whatever the level: start line and answers to the user. Nothing when the log level is
// `off`.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Writes the ring's lines, oldest first, to `fd`.
void dump(int fd);

#define SHUNT_LOG_ERROR(subsys, ...) \
  ::shunt::log::write(::shunt::log::Level::error, ::shunt::log::Subsys::subsys, __VA_ARGS__)
#define SHUNT_LOG_WARN(subsys, ...) \
  ::shunt::log::write(::shunt::log::Level::warn, ::shunt::log::Subsys::subsys, __VA_ARGS__)
#define SHUNT_LOG_INFO(subsys, ...) \
  ::shunt::log::write(::shunt::log::Level::info, ::shunt::log::Subsys::subsys, __VA_ARGS__)
#define SHUNT_LOG_DEBUG(subsys, ...)                                                              \
  do {                                                                                            \
    if (::shunt::log::enabled(::shunt::log::Level::debug, ::shunt::log::Subsys::subsys))          \
      ::shunt::log::write(::shunt::log::Level::debug, ::shunt::log::Subsys::subsys, __VA_ARGS__); \
  } while (0)

}  // namespace shunt::log
