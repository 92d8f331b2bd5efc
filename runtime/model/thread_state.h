// Per-thread part of the model: the current context and the look-up caches. One pointer of static TLS; the
// state itself is allocated at a thread's first observed call and freed when it ends.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "runtime/model/handle_table.h"
#include "runtime/model/objects.h"

namespace shunt::model {

struct ThreadState {
  CUcontext current = nullptr;
  bool current_known = false;   // false: ask the driver once
  uint32_t inside_library = 0;  // depth of NCCL calls: launches below belong to the collective
  uint64_t context_epoch = 0;   // Model::context_epoch() when `current` was learned
  int index = 0;                // small number, stable for the thread's life
  uint32_t bypass_left = 0;     // launches on `bypass_stream` that no link needs to see (exec/bypass.h)
  uint64_t bypass_stream = 0;
  HandleCache<StreamInfo> streams;
  HandleCache<EventInfo> events;
  HandleCache<FunctionInfo> functions;
  HandleCache<ContextInfo> contexts;
};

namespace detail {
extern thread_local ThreadState* thread_state __attribute__((tls_model("initial-exec")));
ThreadState& create_thread_state();
}  // namespace detail

inline ThreadState& this_thread() {
  if (__builtin_expect(detail::thread_state != nullptr, 1)) return *detail::thread_state;
  return detail::create_thread_state();
}
// All states of live threads are invalid in a fork child but the caller's; it starts afresh.
void thread_states_after_fork();

}  // namespace shunt::model
