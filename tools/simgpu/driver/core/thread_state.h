// Per host thread: stack of current contexts, virtual clock, and whether NULL means the per-thread stream
// just now. Allocated at the thread's first call and leaked (a few hundred bytes): calls from thread-local
// destructors stay valid.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/core/cuda_api.h"

namespace simgpu::driver {
struct Context;

struct ThreadState {
  std::vector<std::shared_ptr<Context>> contexts;
  uint64_t clock_ns = 0;     // virtual host time
  uint64_t cpu_mark_ns = 0;  // hybrid clock: thread CPU time when it last left the driver
  int per_thread_depth = 0;  // > 0 inside a _ptsz/_ptds entry
  int api_depth = 0;
  bool in_callback = false;  // running an application's host function
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t id = 0;
};
ThreadState& thread_state();

struct PerThreadScope {
  PerThreadScope() { ++thread_state().per_thread_depth; }
  ~PerThreadScope() { --thread_state().per_thread_depth; }
};
}  // namespace simgpu::driver
