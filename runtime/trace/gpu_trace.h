// Device times by CUPTI, on request (--gpu-trace=graph|node): off by default, because the slot for a
// subscriber is one and other profilers want it. libcupti is opened when cuInit has returned, never linked.
// Calls made for a decision carry its id as external id of kind CUSTOM2 (Kineto has 0 and 1), so that device
// work is found by ids. Records go from CUPTI's buffers straight into the trace (format_gpu.h). Any thread;
// leaked. Exit: stop() flushes by force and writes down what was lost. A fork child leaves CUPTI alone for
// good once the parent has started it.
#pragma once
#include <atomic>
#include <cstdint>

#include "runtime/trace/decision.h"

namespace shunt::trace::gpu {

enum class Level : uint8_t { off, graph, node };  // one record a graph launch, or one a node

struct Options {
  Level level = Level::off;
  bool host_pinned = false;  // CUPTI's own buffers in host memory: the memory engine counts the device's
  uint64_t buffer_bytes = 64u << 20;
};

namespace detail {
extern std::atomic<bool> running;
void push(Feature feature, uint64_t decision);
void pop();
}  // namespace detail

void arm(const Options& options);
// Once, after cuInit. Refusals are logged with the holder's name and recorded as a decision.
void start();
inline bool running() { return detail::running.load(std::memory_order_relaxed); }
// At a synchronisation the program makes: what is complete is written down, at most once a second.
void flush_sometimes();
void stop();
void fork_child();

// The calling thread's driver calls belong to the decision.
class Around {
 public:
  Around(Feature feature, uint64_t decision) : on_(running()) {
    if (__builtin_expect(on_, 0)) detail::push(feature, decision);
  }
  ~Around() {
    if (__builtin_expect(on_, 0)) detail::pop();
  }
  Around(const Around&) = delete;
  Around& operator=(const Around&) = delete;

 private:
  const bool on_;
};
// CUPTI's number of a stream, as device records have it; 0 while nothing is recorded.
uint32_t stream_number(void* context, void* stream);
// The work of several decisions is enqueued by one call (NCCL's groups): it carries the id of `leader`.
void issued_with(uint64_t decision, uint64_t leader);

}  // namespace shunt::trace::gpu
