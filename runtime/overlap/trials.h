// Whether the program is faster with a kind of call moved: a few of its periods are timed with and without,
// by the device's own clock, and the kind stays on its stream for a while when moving has lost. A period lies
// between two calls of the kind with the same buffer. The programs that lose are those the host cannot feed
// fast enough: each move costs it a record and two waits.
//
// The first trial comes after a few periods, later ones more and more rarely. Any thread; no lock is kept
// during a call of the driver.
#pragma once
#include <cstdint>

#include "runtime/base/flat_map.h"
#include "runtime/base/spin.h"
#include "runtime/overlap/companion.h"

namespace shunt::overlap {

class Trials {
 public:
  enum class Say : uint8_t { move, measuring, no_gain };
  static constexpr uint32_t kFirst = 16, kSettle = 2, kTimes = 4, kFirstPause = 64, kFirstGood = 64,
                            kLongest = 1 << 14;

  // For a call that could move, before it is made. `buffer` tells calls of a kind apart.
  Say ask(uint64_t kind, uint64_t buffer, exec::Link* below, CUstream stream, CUcontext context);
  void forget_context(CUcontext context) { events_.forget_context(context); }
  void reset_after_fork();

 private:
  enum class Phase : uint8_t { settle_moved, time_moved, settle_stayed, time_stayed, judge, good, pause };
  struct Trial {
    uint64_t buffer = 0;
    Phase phase = Phase::settle_moved;
    uint32_t count = 0, others = 0;
    uint32_t settle = kFirst;
    uint32_t pause = kFirstPause, good = kFirstGood;
    CUcontext context = nullptr;
    OwnEvent times[2][kTimes];  // moved, stayed
  };
  static Say says(Phase phase);
  static void restart(Trial& t);
  void judge(Trial& t);
  Events events_{CU_EVENT_DEFAULT};
  SpinRwLock lock_;
  FlatMap<Trial*> trials_;
};

}  // namespace shunt::overlap
