#include "tools/simgpu/driver/core/call.h"

#include "tools/simgpu/driver/core/schedule.h"

namespace simgpu::driver {

CallFrame::CallFrame(const char* name, unsigned flags) : name(name), flags(flags) {
  ThreadState& state = thread_state();
  if (flags & kNeedsInit) {
    if (!is_initialised()) {
      refused = CUDA_ERROR_NOT_INITIALIZED;
    } else if (state.in_callback && !(flags & kInCallback)) {
      refused = CUDA_ERROR_NOT_PERMITTED;
    }
  }
  if (state.api_depth++ > 0) return;
  scheduled = schedule_active() && ((flags & kNeedsInit) || !(flags & kNoTime)) && !state.in_callback &&
              !is_forked_child();
  if (scheduled) schedule_enter();
  if (refused == CUDA_SUCCESS && faults_active()) refused = fault_point("call", CUDA_ERROR_UNKNOWN, name);
  if (flags & kNoTime) return;
  uint64_t cost = 300;
  if (!state.contexts.empty()) cost = state.contexts.back()->device->host_call_ns;
  clock_enter(cost);
  start_ns = state.clock_ns;
  next_correlation();
  call_api_callback(name, 0, 0);
}

CallFrame::~CallFrame() {
  ThreadState& state = thread_state();
  struct Leave {
    bool scheduled;
    ~Leave() {
      if (scheduled) schedule_leave();
    }
  } leave{scheduled};
  if (--state.api_depth > 0 || (flags & kNoTime)) return;
  clock_leave();
  call_api_callback(name, 1, int(result));
  if (!timeline_active()) return;
  Record record;
  record.kind = "api";
  record.name = name;
  record.start_ns = start_ns;
  record.end_ns = state.clock_ns;
  record.thread = state.id;
  record.correlation = current_correlation();
  record.result = int(result);
  timeline_emit(record);
}
}  // namespace simgpu::driver
