// The shadow of the driver's state: what exists, who owns it, what is current, what is being captured. First
// link of the call path whenever an engine is on, so it sees every call that is not harmless; all other links
// ask it instead of the driver. It never calls the driver itself except cuCtxGetCurrent and
// cuStreamGetCtx-like queries passed in as functions, off the hot path. Any thread; leaked on purpose.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "runtime/model/allocations.h"
#include "runtime/model/handle_table.h"
#include "runtime/model/objects.h"
#include "runtime/model/op.h"
#include "runtime/model/thread_state.h"

namespace shunt::model {

// Driver questions the model may ask when it has not seen the answer; null when the driver lacks them.
struct Questions {
  CUresult (*ctx_get_current)(CUcontext*) = nullptr;
  CUresult (*ctx_get_device)(CUdevice*) = nullptr;
  CUresult (*stream_get_ctx)(CUstream, CUcontext*) = nullptr;
  CUresult (*stream_get_flags)(CUstream, unsigned int*) = nullptr;
};

class Model {
 public:
  static Model& get() { return *instance_.load(std::memory_order_acquire); }
  // In a fork child: a fresh, empty model. The parent's is left behind, since a thread that does not exist
  // here may have been in the middle of changing it.
  static void fork_child();
  void set_questions(const Questions& q) { questions_ = q; }

  // before(): what must be known or forgotten before the driver sees the call. after(): what its success made
  // true. Between them the caller makes the call, without any lock. `undo` carries detached objects in case
  // it fails.
  struct Undo {
    void* object = nullptr;
    std::optional<Allocation> allocation;
  };
  void before(Op& op, Undo& undo);
  void after(Op& op, Undo& undo);

  // Contexts
  CUcontext current_context();
  ContextInfo* context(CUcontext handle);
  int device_of(CUcontext handle);  // physical ordinal, -1 unknown
  uint64_t context_epoch() const { return context_epoch_.load(std::memory_order_acquire); }

  // Streams. Handles 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are one shadow stream per context (and
  // thread).
  StreamInfo* stream(CUstream handle, bool per_thread, CUcontext current);
  bool capturing(const StreamInfo* s) const {
    return s && s->capture_id.load(std::memory_order_acquire) != 0;
  }
  bool any_capture() const { return live_captures_.load(std::memory_order_acquire) != 0; }
  EventInfo* event(CUevent handle);

  // Code
  FunctionInfo* function(CUfunction handle);
  ModuleInfo* module(uint64_t handle);

  Allocations& allocations() { return allocations_; }
  Allocations& reservations() { return reservations_; }

  struct Counts {
    size_t contexts, streams, events, functions, modules, allocations;
  };
  Counts counts() const;

 private:
  void before_context(Op& op, Undo& undo);
  void after_context(Op& op, Undo& undo);
  void after_stream(Op& op, Undo& undo);
  void after_capture(Op& op);
  void after_code(Op& op, Undo& undo);
  void after_memory(Op& op, Undo& undo);
  void forget_context_contents(CUcontext context);

  static std::atomic<Model*> instance_;
  Questions questions_;
  HandleTable<ContextInfo> contexts_;
  HandleTable<StreamInfo> streams_;
  HandleTable<EventInfo> events_;
  HandleTable<FunctionInfo> functions_;
  HandleTable<ModuleInfo> modules_;
  Allocations allocations_, reservations_;
  std::atomic<uint64_t> context_epoch_{1};  // changes when a context dies: threads re-ask what is current
  std::atomic<uint64_t> next_capture_{1};
  std::atomic<uint32_t> live_captures_{0};
};

}  // namespace shunt::model
