// The streams shunt adds to one stream of the program: `k` carries the collectives, `j` the events that stand
// for the program's stream together with what is pending. Both are made before the first collective is moved
// and live until the program destroys its stream. Also the pool of events, and the ops that shunt makes
// itself: these travel down the call path from the overlap link on, so that nothing overtakes what the graphs
// engine holds. Any thread.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/base/spin.h"
#include "runtime/exec/link.h"
#include "runtime/overlap/footprint.h"

namespace shunt::overlap {

struct Companion {
  CUstream k = nullptr, j = nullptr;
  CUcontext context = nullptr;
  std::atomic<uint64_t> next_sequence{1};
};

// Makes a context current for a few calls when it isn't.
class Current {
 public:
  explicit Current(CUcontext context);
  ~Current();
  Current(const Current&) = delete;
  bool ok() const { return ok_; }

 private:
  CUcontext before_ = nullptr;
  bool changed_ = false, ok_ = true;
};

// An event of the pool. `epoch`: of its context; what is given back after the context's end is dropped, since
// the driver may have handed the same value out again.
struct OwnEvent {
  CUevent event = nullptr;
  uint64_t epoch = 0;
  explicit operator bool() const { return event != nullptr; }
};

class Events {
 public:
  explicit Events(unsigned flags = CU_EVENT_DISABLE_TIMING) : flags_(flags) {}
  // Null when the driver refuses.
  OwnEvent take(CUcontext context);
  void give(CUcontext context, OwnEvent event);
  void forget_context(CUcontext context);
  void reset_after_fork();

 private:
  const unsigned flags_;
  SpinRwLock lock_;
  struct Free {
    uint64_t epoch = 1;
    std::vector<CUevent> events;
  };
  FlatMap<Free*> free_;
};

// Own ops, to the link below.
CUresult record(exec::Link* below, CUevent event, CUstream stream, CUcontext context);
CUresult wait(exec::Link* below, CUstream stream, CUevent event, CUcontext context);

}  // namespace shunt::overlap
