// Is the process that wrote a slot still the one that has this pid? Pids are reused, so the start time goes
// with them. No state; any thread.
#pragma once
#include <cstdint>

namespace simgpu {

// Start time of a process in clock ticks since boot; 0 when there is no such process or only its corpse
// (zombie).
uint64_t process_start_time(uint32_t pid);
uint64_t own_start_time();

}  // namespace simgpu
