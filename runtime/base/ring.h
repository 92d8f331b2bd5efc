// Bounded multi-producer, single-consumer queue of trivially copyable items. push() fails when full, never
// blocks and never allocates after construction; order is that of the claimed places. Producers: any thread;
// pop(): one thread at a time.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace shunt {

template <class T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Ring(size_t capacity) : mask_(std::bit_ceil(capacity) - 1), cells_(new Cell[mask_ + 1]) {
    for (size_t i = 0; i <= mask_; i++) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  bool push(const T& item) {
    uint64_t at = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const int64_t gap = static_cast<int64_t>(cell.turn.load(std::memory_order_acquire) - at);
      if (gap < 0) return false;
      if (gap == 0 && tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        cell.item = item;
        cell.turn.store(at + 1, std::memory_order_release);
        return true;
      }
      if (gap > 0) at = tail_.load(std::memory_order_relaxed);
    }
  }

  bool pop(T& item) {
    Cell& cell = cells_[head_ & mask_];
    if (cell.turn.load(std::memory_order_acquire) != head_ + 1) return false;
    item = cell.item;
    cell.turn.store(head_ + mask_ + 1, std::memory_order_release);
    head_++;
    return true;
  }

  size_t capacity() const { return mask_ + 1; }

 private:
  struct Cell {
    std::atomic<uint64_t> turn;
    T item;
  };
  const uint64_t mask_;
  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
};

}  // namespace shunt
