// A random program as data: what each host thread calls, in order. Every plan is free of races by
// construction: the planner keeps what each stream and thread knows to be done, and adds the events and waits
// that the program needs and no others, so that orders the program gets from the default stream's rules alone
// are really used. Pure; the same seed gives the same plan.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace random_program {

enum class Call : uint8_t {
  launch,         // kernel `a` (Kernel)
  launch_ex,      // the same through cuLaunchKernelEx
  launch_extra,   // parameters as one buffer
  launch_bad,     // refused; `a` says how
  launch_shared,  // needs a function attribute to be accepted
  memset,
  copy_device,
  copy_in,        // pinned to device, asynchronous
  copy_out,       // device to pinned, asynchronous
  copy_pageable,  // asynchronous in name
  copy_sync,
  host_fill,  // the thread writes a pinned buffer
  host_read,  // the thread reads one: goes into the log
  event_record,
  event_wait,
  event_sync,
  event_query,
  event_poll,  // until done
  stream_sync,
  stream_query,
  stream_poll,
  context_sync,
  host_function,
  stream_callback,
  watch,  // reads mapped memory until the value is there, without any call
  alloc,
  free,
  alloc_async,
  free_async,
  pool_trim,
  function_attribute,
  cache_config,
  stream_attribute,
  stream_new,  // destroys and makes anew
  module_load,
  module_unload,
  capture,      // `a` launches, then instantiate, launch, destroy
  capture_bad,  // an unsafe call in the middle
  count
};
const char* name(Call call);

enum class Kernel : uint8_t { mix, odd, shift, signal_host, use_global, count };

enum class Stream : uint8_t { legacy, per_thread, blocking, non_blocking, high_priority };

struct Op {
  Call call = Call::count;
  int thread = 0;
  int stream = 0;                // index into Plan::streams
  int buffer[3] = {-1, -1, -1};  // written, read, read
  int event = -1;
  uint32_t a = 0, value = 0;
  int64_t turn = -1;  // strict plans: position among all threads' ops
};

constexpr uint32_t kWords = 64;  // of every buffer

struct Plan {
  uint64_t seed = 0;
  int threads = 1;
  bool strict = false;  // threads take turns in the order of `turn`
  std::vector<Stream> streams;
  std::vector<int> stream_thread;  // who makes and uses it; strict: who makes it
  int device_buffers = 0, pinned_buffers = 0, loose_buffers = 0, events = 0;
  // Buffers: [0, device) live all the time, then pinned, then those the plan allocates itself.
  bool pinned(int b) const { return b >= device_buffers && b < device_buffers + pinned_buffers; }
  bool loose(int b) const { return b >= device_buffers + pinned_buffers; }
  int buffers() const { return device_buffers + pinned_buffers + loose_buffers; }
  std::vector<std::vector<Op>> ops;         // by thread
  std::map<std::string, uint64_t> reached;  // situations and how often
};

struct Options {
  bool captures = true;      // the program's own graphs
  bool side_by_side = true;  // threads that take no turns: which of them an injected failure hits is chance
};

Plan make_plan(uint64_t seed, const Options& options);

}  // namespace random_program
