#include "runtime/overlap/profit.h"

#include <algorithm>

namespace shunt::overlap {

bool Profit::worthwhile(uint64_t kind) {
  WriteGuard guard(lock_);
  Record& r = records_[kind];
  if (r.pause == 0) return true;
  r.pause--;
  return false;
}

void Profit::learned(uint64_t kind, bool gained) {
  WriteGuard guard(lock_);
  Record& r = records_[kind];
  if (gained) {
    r = Record{};
    return;
  }
  if (++r.without < kInARow) return;
  r.pause = r.next_pause;
  r.next_pause = std::min(2 * r.next_pause, kLongestPause);
  r.without = kInARow - 2;  // the next look is a short one
}

}  // namespace shunt::overlap
