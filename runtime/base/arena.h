// Bump allocator: blocks are kept until the arena goes, or reset() makes them available again. For parameter
// bytes and strings that live exactly as long as their owner. One thread, or under the owner's lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace shunt {

class Arena {
 public:
  explicit Arena(size_t block_bytes = 64 * 1024) : block_bytes_(block_bytes) {}

  void* allocate(size_t bytes, size_t align = alignof(std::max_align_t)) {
    size_t at = (used_ + align - 1) & ~(align - 1);
    if (current_ >= blocks_.size() || at + bytes > blocks_[current_].size) {
      next_block(bytes + align);
      at = 0;
    }
    used_ = at + bytes;
    return blocks_[current_].data.get() + at;
  }
  std::string_view copy(std::string_view text) {
    char* to = static_cast<char*>(allocate(text.size() + 1, 1));
    memcpy(to, text.data(), text.size());
    to[text.size()] = 0;
    return {to, text.size()};
  }
  // Everything handed out becomes invalid; memory is kept.
  void reset() { current_ = used_ = 0; }
  size_t reserved_bytes() const {
    size_t total = 0;
    for (const Block& b : blocks_) total += b.size;
    return total;
  }

 private:
  struct Block {
    std::unique_ptr<uint8_t[]> data;
    size_t size;
  };
  void next_block(size_t at_least) {
    while (!blocks_.empty() && current_ + 1 < blocks_.size())
      if (blocks_[++current_].size >= at_least) return void(used_ = 0);
    const size_t size = at_least > block_bytes_ ? at_least : block_bytes_;
    blocks_.push_back({std::unique_ptr<uint8_t[]>(new uint8_t[size]), size});
    current_ = blocks_.size() - 1;
    used_ = 0;
  }
  const size_t block_bytes_;
  std::vector<Block> blocks_;
  size_t current_ = 0, used_ = 0;
};

}  // namespace shunt
