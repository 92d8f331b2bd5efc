// Whether moving a kind of call (communicator, function, size class) has been worth it: something independent
// ran beside the last ones, or they could start earlier. After a row of calls without, the kind stays on its
// stream for a while, longer each time, and is then tried again. Local to this rank: streams decide order
// only, so ranks may differ. Any thread.
#pragma once
#include <cstdint>

#include "runtime/base/flat_map.h"
#include "runtime/base/spin.h"

namespace shunt::overlap {

class Profit {
 public:
  static constexpr uint32_t kInARow = 8, kFirstPause = 32, kLongestPause = 8192;
  // Asked once for each call that could move.
  bool worthwhile(uint64_t kind);
  void learned(uint64_t kind, bool gained);
  void reset_after_fork() { lock_.reset_after_fork(); }

 private:
  struct Record {
    uint32_t without = 0;  // moved calls in a row with nothing beside them
    uint32_t pause = 0;    // calls that stay
    uint32_t next_pause = kFirstPause;
  };
  SpinRwLock lock_;
  FlatMap<Record> records_;
};

}  // namespace shunt::overlap
