// Hash maps from 64-bit keys (handles, addresses, ids) to small values.
//
// FlatMap: open addressing, linear probing, tombstone-free erase, for one thread or under the owner's lock.
// ShardedMap: 64 FlatMaps behind one reader/writer spin lock each; values are copied out, so no reference
// outlives the lock. Key 0 is a valid key. No lock is held while user code other than the short visitor given
// to update() runs.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/base/spin.h"

namespace shunt {

inline uint64_t mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  return x;
}

template <class V>
class FlatMap {
 public:
  V* find(uint64_t key) {
    if (size_ == 0) return nullptr;
    for (size_t i = home(key);; i = (i + 1) & mask_) {
      if (!slots_[i].used) return nullptr;
      if (slots_[i].key == key) return &slots_[i].value;
    }
  }
  const V* find(uint64_t key) const { return const_cast<FlatMap*>(this)->find(key); }

  // Inserts or overwrites. True when the key is new.
  bool put(uint64_t key, V value) {
    if (V* there = find(key)) return *there = std::move(value), false;
    if ((size_ + 1) * 4 > capacity() * 3) grow();
    place(key, std::move(value));
    size_++;
    return true;
  }
  V& operator[](uint64_t key) {
    if (V* there = find(key)) return *there;
    put(key, V{});
    return *find(key);
  }

  bool erase(uint64_t key, V* out = nullptr) {
    V* found = find(key);
    if (!found) return false;
    if (out) *out = std::move(*found);
    size_t hole = home(key);
    while (!slots_[hole].used || slots_[hole].key != key) hole = (hole + 1) & mask_;
    // Backward-shift: whatever probed past the hole moves up, so no tombstones slow later look-ups down.
    for (size_t i = (hole + 1) & mask_; slots_[i].used; i = (i + 1) & mask_) {
      const size_t want = home(slots_[i].key);
      if (((i - want) & mask_) < ((i - hole) & mask_)) continue;
      slots_[hole] = std::move(slots_[i]);
      hole = i;
    }
    slots_[hole] = Slot{};
    size_--;
    return true;
  }

  size_t size() const { return size_; }
  size_t capacity() const { return slots_ ? mask_ + 1 : 0; }
  void clear() {
    slots_.reset();
    size_ = mask_ = 0;
  }
  template <class F>
  void for_each(F&& visit) {
    for (size_t i = 0; i < capacity(); i++)
      if (slots_[i].used) visit(slots_[i].key, slots_[i].value);
  }

 private:
  struct Slot {
    uint64_t key = 0;
    V value{};
    bool used = false;
  };
  size_t home(uint64_t key) const { return mix64(key) & mask_; }
  void place(uint64_t key, V&& value) {
    size_t i = home(key);
    while (slots_[i].used) i = (i + 1) & mask_;
    slots_[i] = Slot{key, std::move(value), true};
  }
  void grow() {
    const size_t old_capacity = capacity();
    std::unique_ptr<Slot[]> old = std::move(slots_);
    const size_t wanted = old_capacity ? old_capacity * 2 : 16;
    slots_.reset(new Slot[wanted]);
    mask_ = wanted - 1;
    for (size_t i = 0; i < old_capacity; i++)
      if (old[i].used) place(old[i].key, std::move(old[i].value));
  }
  std::unique_ptr<Slot[]> slots_;
  size_t mask_ = 0, size_ = 0;
};

template <class V>
class ShardedMap {
 public:
  bool find(uint64_t key, V& out) const {
    const Shard& s = shard(key);
    SharedGuard guard(s.lock);
    const V* found = s.map.find(key);
    if (found) out = *found;
    return found != nullptr;
  }
  bool contains(uint64_t key) const {
    const Shard& s = shard(key);
    SharedGuard guard(s.lock);
    return s.map.find(key) != nullptr;
  }
  bool put(uint64_t key, V value) {
    Shard& s = shard(key);
    WriteGuard guard(s.lock);
    return s.map.put(key, std::move(value));
  }
  // Only when the key is absent; false leaves the present value alone.
  bool put_new(uint64_t key, V value) {
    Shard& s = shard(key);
    WriteGuard guard(s.lock);
    return !s.map.find(key) && s.map.put(key, std::move(value));
  }
  bool erase(uint64_t key, V* out = nullptr) {
    Shard& s = shard(key);
    WriteGuard guard(s.lock);
    return s.map.erase(key, out);
  }
  // change(V&) under the shard's lock: a few instructions, no calls out. False when the key is absent.
  template <class F>
  bool update(uint64_t key, F&& change) {
    Shard& s = shard(key);
    WriteGuard guard(s.lock);
    V* found = s.map.find(key);
    if (found) change(*found);
    return found != nullptr;
  }
  // Visits a moment's content shard by shard; not a snapshot over all shards.
  template <class F>
  void for_each(F&& visit) {
    for (Shard& s : shards_) {
      SharedGuard guard(s.lock);
      s.map.for_each([&](uint64_t key, V& value) { visit(key, static_cast<const V&>(value)); });
    }
  }
  // remove(key, V&) -> bool, under the lock. Returns how many went.
  template <class F>
  size_t erase_if(F&& remove) {
    size_t removed = 0;
    for (Shard& s : shards_) {
      WriteGuard guard(s.lock);
      for (bool again = true; again;) {  // erasing shifts slots, so restart after each hit
        again = false;
        uint64_t victim = 0;
        s.map.for_each([&](uint64_t key, V& value) {
          if (!again && remove(key, value)) victim = key, again = true;
        });
        if (again) removed += s.map.erase(victim);
      }
    }
    return removed;
  }
  size_t size() const {
    size_t total = 0;
    for (const Shard& s : shards_) {
      SharedGuard guard(s.lock);
      total += s.map.size();
    }
    return total;
  }
  void reset_after_fork() {
    for (Shard& s : shards_) s.lock.reset_after_fork();
  }

 private:
  static constexpr size_t kShards = 64;
  struct alignas(64) Shard {
    mutable SpinRwLock lock;
    FlatMap<V> map;
  };
  // The top bits pick the shard, the low bits the place inside it.
  const Shard& shard(uint64_t key) const { return shards_[mix64(key) >> 58]; }
  Shard& shard(uint64_t key) { return shards_[mix64(key) >> 58]; }
  Shard shards_[kShards];
};

}  // namespace shunt
