// Which bytes a worker touched: one bit per byte and kind in pages, turned into intervals at the end. One
// thread.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/exec/exec.h"

namespace simgpu::exec {

class AccessLog {
 public:
  void add(uint64_t address, uint64_t bytes, Access::Kind kind);
  void merge_into(std::vector<Access>& out) const;  // unsorted, each kind's intervals merged within this log
  void clear();

 private:
  static constexpr uint64_t kPage = 4096;
  struct Bits {
    uint64_t words[kPage / 64] = {};
  };
  struct Page {  // most pages are only read or only written: one kind is an eighth of the memory
    std::unique_ptr<Bits> kinds[3];
  };
  Page* page(uint64_t number);
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  struct Recent {
    uint64_t number = ~0ull;
    Page* page = nullptr;
  };
  Recent recent_[64];
};

// Sorts and merges; beyond `limit` intervals, neighbours are joined across ever larger gaps.
void normalise(std::vector<Access>& list, size_t limit);

}  // namespace simgpu::exec
