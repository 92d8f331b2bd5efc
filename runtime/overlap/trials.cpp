#include "runtime/overlap/trials.h"

#include <algorithm>

#include "runtime/exec/driver.h"

namespace shunt::overlap {

Trials::Say Trials::says(Phase phase) {
  switch (phase) {
    case Phase::settle_stayed:
    case Phase::time_stayed:
      return Say::measuring;
    case Phase::pause:
      return Say::no_gain;
    default:
      return Say::move;
  }
}

void Trials::restart(Trial& t) {
  t.phase = Phase::settle_moved;
  t.count = 0;
  t.settle = kSettle;
}

// Only times that the device has reached can be compared; until then the kind moves on.
void Trials::judge(Trial& t) {
  const auto elapsed = exec::Driver::get().event_elapsed_time;
  float moved = 0, stayed = 0;
  if (!elapsed) {
    t.phase = Phase::good;
    return;
  }
  const CUresult first = elapsed(&moved, t.times[0][0].event, t.times[0][kTimes - 1].event);
  const CUresult second = elapsed(&stayed, t.times[1][0].event, t.times[1][kTimes - 1].event);
  if (first == CUDA_ERROR_NOT_READY || second == CUDA_ERROR_NOT_READY) return;
  t.count = 0;
  constexpr float kTolerated = 1.005f;
  const bool lost = first == CUDA_SUCCESS && second == CUDA_SUCCESS && moved > stayed * kTolerated;
  t.phase = lost ? Phase::pause : Phase::good;
}

Trials::Say Trials::ask(uint64_t kind, uint64_t buffer, exec::Link* below, CUstream stream,
                        CUcontext context) {
  Trial* t = nullptr;
  {
    WriteGuard guard(lock_);
    Trial*& there = trials_[kind];
    if (!there) there = new Trial();
    t = there;
    if (t->buffer == 0) t->buffer = buffer;
    if (t->buffer != buffer) {
      // A program that never comes back to the same buffer has no periods.
      if (++t->others > 4096) {
        t->buffer = buffer;
        t->others = 0;
        restart(*t);
      }
      return says(t->phase);
    }
    t->others = 0;
    switch (t->phase) {
      case Phase::settle_moved:
        if (++t->count <= t->settle) return Say::move;
        t->phase = Phase::time_moved;
        t->count = 0;
        break;
      case Phase::settle_stayed:
        if (++t->count <= 1) return Say::measuring;
        t->phase = Phase::time_stayed;
        t->count = 0;
        break;
      case Phase::good:
        if (++t->count >= t->good) {
          t->good = std::min(4 * t->good, kLongest);
          restart(*t);
        }
        return Say::move;
      case Phase::pause:
        if (++t->count < t->pause) return Say::no_gain;
        t->pause = std::min(4 * t->pause, kLongest);
        restart(*t);
        return Say::move;
      case Phase::judge:
        judge(*t);
        return says(t->phase);
      case Phase::time_moved:
      case Phase::time_stayed:
        break;
    }
  }
  // A time is taken. The events are the trial's own and one call of a kind is made at a time: NCCL itself
  // asks for that.
  const bool stayed = t->phase == Phase::time_stayed;
  OwnEvent& event = t->times[stayed][t->count];
  if (!event || t->context != context) event = events_.take(context);
  const bool recorded = event && record(below, event.event, stream, context) == CUDA_SUCCESS;
  WriteGuard guard(lock_);
  t->context = context;
  if (!recorded) {
    t->phase = Phase::good;
    t->count = 0;
    return Say::move;
  }
  if (++t->count == kTimes) {
    t->phase = stayed ? Phase::judge : Phase::settle_stayed;
    t->count = 0;
  }
  return says(t->phase);
}

void Trials::reset_after_fork() {
  lock_.reset_after_fork();
  events_.reset_after_fork();
}

}  // namespace shunt::overlap
