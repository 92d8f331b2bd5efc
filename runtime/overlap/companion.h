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

class Events {
 public:
  // Without timing. Null when the driver refuses.
  CUevent take(CUcontext context);
  void give(CUcontext context, CUevent event);
  void forget_context(CUcontext context);
  void reset_after_fork();

 private:
  SpinRwLock lock_;
  FlatMap<std::vector<CUevent>*> free_;
};

// Own ops, to the link below.
CUresult record(exec::Link* below, CUevent event, CUstream stream, CUcontext context);
CUresult wait(exec::Link* below, CUstream stream, CUevent event, CUcontext context);

}  // namespace shunt::overlap
