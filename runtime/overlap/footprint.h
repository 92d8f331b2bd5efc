// Which bytes an operation touches, as far as that is known. A value; copied freely. `everything` means
// nothing is proven: it conflicts with whatever there is. `outside`: somebody beyond the device's streams may
// see it happen (host, peer, another process), so that it keeps its place behind everything pending.
#pragma once
#include <cstdint>
#include <vector>

namespace shunt::overlap {

struct Span {
  uint64_t begin = 0, end = 0;
  bool write = false;
};

inline bool overlap(const Span& a, const Span& b) {
  return a.begin < b.end && b.begin < a.end && (a.write || b.write);
}

struct Footprint {
  static constexpr uint32_t kSpans = 24;
  Span spans[kSpans];
  uint32_t count = 0;
  bool everything = false, outside = false;

  void clear() { count = 0, everything = outside = false; }
  void add(uint64_t begin, uint64_t bytes, bool write) {
    if (bytes == 0) return;
    // A list that is full grows coarse: one span over all, which is sound.
    if (count == kSpans) return widen(begin, begin + bytes, write);
    spans[count++] = {begin, begin + bytes, write};
  }
  void add(const Footprint& other) {
    everything = everything || other.everything;
    outside = outside || other.outside;
    for (uint32_t i = 0; i < other.count; ++i)
      add(other.spans[i].begin, other.spans[i].end - other.spans[i].begin, other.spans[i].write);
  }
  bool conflicts(const Footprint& other) const {
    if (everything || other.everything) return true;
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t k = 0; k < other.count; ++k)
        if (overlap(spans[i], other.spans[k])) return true;
    return false;
  }

 private:
  void widen(uint64_t begin, uint64_t end, bool write) {
    Span& last = spans[kSpans - 1];
    if (begin < last.begin) last.begin = begin;
    if (end > last.end) last.end = end;
    last.write = last.write || write;
  }
};

}  // namespace shunt::overlap
