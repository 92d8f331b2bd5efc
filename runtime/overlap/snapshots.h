// The program's events that were recorded while collectives were pending. The event itself was recorded on
// the join stream, behind the stream and everything pending; `alone` stands for the stream without them. A
// stream that waits for the event waits for `alone` and takes the pending collectives over. Everybody else
// (queries, waits of the host, IPC, timing) meets the event. Any thread.
#pragma once
#include <atomic>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/base/spin.h"
#include "runtime/overlap/pending.h"

namespace shunt::overlap {

class Snapshots {
 public:
  Snapshots(Events& events, PendingPool& pool) : events_(events), pool_(pool) {}
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  // Takes both over.
  void put(CUevent event, OwnEvent alone, CUcontext context, std::vector<Pending*> pending);
  // The event was recorded otherwise, or is gone: a wait for it is a plain one.
  void forget(CUevent event);
  void forget_all();
  // Calls use(alone, pending) while the snapshot cannot go away; false: there is none.
  struct Borrowed {
    CUevent alone = nullptr;
    CUcontext context = nullptr;
    std::vector<Pending*> pending;  // with references; release() them
  };
  bool borrow(CUevent event, Borrowed& out);
  void release(Borrowed& borrowed);
  void reset_after_fork() { lock_.reset_after_fork(); }

 private:
  // `alone` is handed back once the last stream that is about to wait for it has done so.
  struct Snapshot {
    OwnEvent alone;
    CUcontext context = nullptr;
    std::vector<Pending*> pending;
    uint32_t borrowers = 0;
    bool gone = false;
  };
  void drop(Snapshot* s);
  Events& events_;
  PendingPool& pool_;
  SpinRwLock lock_;
  FlatMap<Snapshot*> by_event_;
  FlatMap<Snapshot*> by_alone_;
  std::atomic<uint32_t> count_{0};
};

}  // namespace shunt::overlap
