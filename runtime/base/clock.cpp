#include "runtime/base/clock.h"

namespace shunt::clock {

std::atomic<Source> detail::source{nullptr};

namespace {
uint64_t read(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}
}  // namespace

uint64_t monotonic_ns() { return read(CLOCK_MONOTONIC); }
uint64_t realtime_ns() { return read(CLOCK_REALTIME); }
uint64_t boottime_ns() { return read(CLOCK_BOOTTIME); }
void set_source(Source source) { detail::source.store(source, std::memory_order_relaxed); }
bool is_virtual() { return detail::source.load(std::memory_order_relaxed) != nullptr; }

void adopt_simgpu(void* (*find_loaded)(const char*, const char*)) {
  if (is_virtual() || !find_loaded) return;
  if (void* symbol = find_loaded("libcuda.so.1", "simgpu_host_ns"))
    set_source(reinterpret_cast<Source>(symbol));
}

}  // namespace shunt::clock
