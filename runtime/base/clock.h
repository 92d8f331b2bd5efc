// The only source of time for engines, trace and tests. CLOCK_MONOTONIC nanoseconds, or simgpu's virtual host
// time when simgpu is the driver: then shunt's helpers live in the same time as the program, and runs repeat.
// Any thread.
#pragma once
#include <time.h>

#include <atomic>
#include <cstdint>

namespace shunt::clock {

using Source = uint64_t (*)();
namespace detail {
extern std::atomic<Source> source;
}

// Nanoseconds. 17 ns a call on the vDSO.
inline uint64_t now_ns() {
  if (const Source source = detail::source.load(std::memory_order_relaxed)) return source();
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}
// Real time even under a virtual clock: for intervals of the outside world (file ages, start-up cost).
uint64_t monotonic_ns();
uint64_t realtime_ns();
uint64_t boottime_ns();

// Replaces now_ns(); null restores CLOCK_MONOTONIC.
void set_source(Source source);
bool is_virtual();
// Installs simgpu's `simgpu_host_ns` when libcuda.so.1 is simgpu's. `find_loaded` is ShuntHost's: symbol
// of a library that is already loaded, null otherwise. Harmless to call again (a driver loaded later is then
// found).
void adopt_simgpu(void* (*find_loaded)(const char* soname, const char* symbol));

}  // namespace shunt::clock
