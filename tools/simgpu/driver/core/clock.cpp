#include "tools/simgpu/driver/core/clock.h"

#include <time.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/thread_state.h"

namespace simgpu::driver {
namespace {
std::atomic<uint64_t> g_latest{0};
std::atomic<uint64_t> g_next_thread{1};

uint64_t read_clock(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return uint64_t(t.tv_sec) * 1000000000u + t.tv_nsec;
}
double hybrid_scale() {
  static const double scale = [] {
    const char* text = getenv("SIMGPU_HYBRID_SCALE");
    const double value = text ? atof(text) : 1.0;
    return value > 0 ? value : 1.0;
  }();
  return scale;
}
uint64_t wall_origin() {
  static const uint64_t origin = read_clock(CLOCK_MONOTONIC);
  return origin;
}
void publish(uint64_t clock_ns) {
  uint64_t seen = g_latest.load(std::memory_order_relaxed);
  while (seen < clock_ns && !g_latest.compare_exchange_weak(seen, clock_ns, std::memory_order_relaxed)) {
  }
}
thread_local ThreadState* t_state __attribute__((tls_model("initial-exec"))) = nullptr;
}  // namespace

ThreadState& thread_state() {
  if (!t_state) {
    t_state = new ThreadState;
    t_state->id = g_next_thread.fetch_add(1);
    // A new thread was started by one that had already reached some time; the latest clock is the safe bound.
    t_state->clock_ns = g_latest.load(std::memory_order_relaxed);
    if (clock_mode() == ClockMode::hybrid) t_state->cpu_mark_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
  }
  return *t_state;
}

ClockMode clock_mode() {
  static const ClockMode mode = [] {
    const char* text = getenv("SIMGPU_CLOCK");
    if (!text || !*text || !strcmp(text, "virtual")) return ClockMode::virtual_time;
    if (!strcmp(text, "hybrid")) return ClockMode::hybrid;
    if (!strcmp(text, "wall")) return ClockMode::wall;
    if (!strcmp(text, "null")) return ClockMode::null;
    log_line(LogLevel::error, "SIMGPU_CLOCK=%s is not virtual, hybrid, wall or null: using virtual", text);
    return ClockMode::virtual_time;
  }();
  return mode;
}

void clock_enter(uint64_t call_cost_ns) {
  ThreadState& state = thread_state();
  switch (clock_mode()) {
    case ClockMode::null:
      return;
    case ClockMode::hybrid: {
      const uint64_t cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
      state.clock_ns += uint64_t(double(cpu - state.cpu_mark_ns) * hybrid_scale());
      break;
    }
    case ClockMode::wall: {
      const uint64_t wall = read_clock(CLOCK_MONOTONIC) - wall_origin();
      if (state.clock_ns < wall) state.clock_ns = wall;
      break;
    }
    case ClockMode::virtual_time:
      break;
  }
  state.clock_ns += call_cost_ns;
}

void charge_host(uint64_t ns) {
  const ClockMode mode = clock_mode();
  if (mode == ClockMode::virtual_time || mode == ClockMode::hybrid) thread_state().clock_ns += ns;
}

void clock_leave() {
  ThreadState& state = thread_state();
  publish(state.clock_ns);
  if (clock_mode() == ClockMode::hybrid) state.cpu_mark_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t host_now() { return thread_state().clock_ns; }

void raise_host_clock(uint64_t to_ns) {
  ThreadState& state = thread_state();
  if (state.clock_ns < to_ns) state.clock_ns = to_ns;
  if (clock_mode() == ClockMode::wall) {
    const uint64_t wall = read_clock(CLOCK_MONOTONIC) - wall_origin();
    if (wall < to_ns) {
      timespec pause{time_t((to_ns - wall) / 1000000000u), long((to_ns - wall) % 1000000000u)};
      nanosleep(&pause, nullptr);
    }
  }
}

uint64_t latest_host_clock() { return g_latest.load(std::memory_order_relaxed); }
}  // namespace simgpu::driver
