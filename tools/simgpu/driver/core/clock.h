// Virtual host time. SIMGPU_CLOCK=virtual (default) | hybrid | wall | null, see SIMGPU.md. Any thread.
#pragma once
#include <cstdint>

namespace simgpu::driver {
enum class ClockMode { virtual_time, hybrid, wall, null };
ClockMode clock_mode();
// At API entry: the calling thread's clock moves on by the modelled cost of a call (and its CPU time,
// hybrid).
void clock_enter(uint64_t call_cost_ns);
void charge_host(uint64_t ns);  // inside a call: more modelled host time (a launch, an instantiation)
void clock_leave();
uint64_t host_now();                    // calling thread's virtual time
void raise_host_clock(uint64_t to_ns);  // after a wait; in wall mode also sleeps until then
uint64_t latest_host_clock();           // largest of all threads
}  // namespace simgpu::driver
