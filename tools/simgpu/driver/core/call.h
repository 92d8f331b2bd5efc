// The frame around every exported function: initialisation and fork check, virtual host clock, fault
// injection, engine mutex, timeline record, and no exception beyond this point.
//
//   SIMGPU_API cuStreamQuery(CUstream s) {
//     return api_call("cuStreamQuery", kNeedsInit, [&](Lock& lock) -> CUresult { ... });
//   }
#pragma once
#include <new>

#include "tools/simgpu/driver/core/clock.h"
#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/engine.h"
#include "tools/simgpu/driver/core/faults.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/thread_state.h"
#include "tools/simgpu/driver/core/timeline.h"

namespace simgpu::driver {

enum CallFlags : unsigned {
  kAnyTime = 0,  // valid before cuInit
  kNeedsInit = 1,
  kNoTime = 2,      // costs no virtual time (look-ups, error strings)
  kInCallback = 4,  // allowed inside host functions
};

// Everything that is not the body; out of line so that each entry stays small.
struct CallFrame {
  CallFrame(const char* name, unsigned flags);
  ~CallFrame();
  CUresult refused = CUDA_SUCCESS;  // NOT_INITIALIZED, NOT_PERMITTED ...
  const char* name;
  unsigned flags;
  uint64_t start_ns = 0;
  CUresult result = CUDA_SUCCESS;
  bool scheduled = false;
};

template <class F>
CUresult api_call(const char* name, unsigned flags, F&& body) {
  CallFrame frame(name, flags);
  if (frame.refused != CUDA_SUCCESS) return frame.result = frame.refused;
  try {
    Lock lock(Engine::get().mutex());
    Engine::get().note_api_call();
    frame.result = body(lock);
  } catch (const std::bad_alloc&) {
    frame.result = CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    log_line(LogLevel::error, "%s: internal failure", name);
    frame.result = CUDA_ERROR_UNKNOWN;
  }
  return frame.result;
}

// Inside a body: give up with this code unless it is CUDA_SUCCESS.
#define SIMGPU_TRY(expression)                           \
  do {                                                   \
    const CUresult try_result_ = (expression);           \
    if (try_result_ != CUDA_SUCCESS) return try_result_; \
  } while (0)
#define SIMGPU_REQUIRE(condition, code) \
  do {                                  \
    if (!(condition)) return (code);    \
  } while (0)

}  // namespace simgpu::driver
