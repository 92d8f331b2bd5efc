#include "tools/simgpu/exec/access_log.h"

#include <algorithm>

namespace simgpu::exec {

AccessLog::Page* AccessLog::page(uint64_t number) {
  Recent& r = recent_[number % 64];
  if (r.number == number) return r.page;
  auto& p = pages_[number];
  if (!p) p = std::make_unique<Page>();
  r = {number, p.get()};
  return p.get();
}

void AccessLog::add(uint64_t address, uint64_t bytes, Access::Kind kind) {
  while (bytes) {
    const uint64_t off = address % kPage, n = std::min(bytes, kPage - off);
    std::unique_ptr<Bits>& bits = page(address / kPage)->kinds[kind];
    if (__builtin_expect(!bits, 0)) bits = std::make_unique<Bits>();
    uint64_t* b = bits->words;
    uint64_t at = off, left = n;
    while (left) {
      const uint64_t bit = at % 64, k = std::min<uint64_t>(left, 64 - bit);
      b[at / 64] |= (k == 64 ? ~0ull : ((1ull << k) - 1)) << bit;
      at += k;
      left -= k;
    }
    address += n;
    bytes -= n;
  }
}

void AccessLog::merge_into(std::vector<Access>& out) const {
  for (const auto& [number, p] : pages_) {
    for (int kind = 0; kind < 3; ++kind) {
      if (!p->kinds[kind]) continue;
      uint64_t start = ~0ull;
      for (uint64_t k = 0; k < kPage; ++k) {
        const uint64_t w = p->kinds[kind]->words[k / 64];
        if (k % 64 == 0 && ((w == 0 && start == ~0ull) || (w == ~0ull && start != ~0ull))) {
          k += 63;
          continue;
        }
        const bool set = (w >> (k % 64)) & 1;
        if (set && start == ~0ull) start = k;
        if (!set && start != ~0ull) {
          out.push_back({number * kPage + start, number * kPage + k, static_cast<Access::Kind>(kind)});
          start = ~0ull;
        }
      }
      if (start != ~0ull)
        out.push_back({number * kPage + start, (number + 1) * kPage, static_cast<Access::Kind>(kind)});
    }
  }
}

void AccessLog::clear() {
  pages_.clear();
  for (Recent& r : recent_) r = {};
}

void normalise(std::vector<Access>& list, size_t limit) {
  std::sort(list.begin(), list.end(), [](const Access& a, const Access& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.base < b.base;
  });
  uint64_t gap = 0;
  for (;;) {
    std::vector<Access> merged;
    for (const Access& a : list) {
      if (!merged.empty() && merged.back().kind == a.kind && a.base <= merged.back().end + gap)
        merged.back().end = std::max(merged.back().end, a.end);
      else
        merged.push_back(a);
    }
    list.swap(merged);
    if (list.size() <= limit) break;
    gap = gap ? gap * 4 : 64;
  }
  std::sort(list.begin(), list.end(), [](const Access& a, const Access& b) {
    return a.base != b.base ? a.base < b.base : a.kind < b.kind;
  });
}

}  // namespace simgpu::exec
