// Tells simgpu's driver of each API call's begin and end, so that its CUPTI can report the runtime API. Under
// any other driver, and while no libcuda is loaded, nothing is told. Any thread.
#pragma once
#include <atomic>

#include "tools/simgpu/cudart/cuda_headers.h"

namespace simgpu::cudart {

// Finds the two entry points through the libcuda.so.1 that is loaded, if it is.
void find_watch();

namespace detail {
extern std::atomic<void (*)(const char* function)> runtime_enter;
extern std::atomic<void (*)(const char* function, int result)> runtime_exit;
}  // namespace detail

class WatchedCall {
 public:
  explicit WatchedCall(const char* function) : function_(function) {
    auto* enter = detail::runtime_enter.load(std::memory_order_acquire);
    if (__builtin_expect(enter == nullptr, 0)) {
      find_watch();
      enter = detail::runtime_enter.load(std::memory_order_acquire);
    }
    if (enter) enter(function), told_ = true;
  }
  cudaError_t leaves_with(cudaError_t result) { return result_ = result; }
  ~WatchedCall() {
    if (told_) detail::runtime_exit.load(std::memory_order_relaxed)(function_, result_);
  }
  WatchedCall(const WatchedCall&) = delete;

 private:
  const char* const function_;
  cudaError_t result_ = cudaSuccess;
  bool told_ = false;
};

}  // namespace simgpu::cudart
