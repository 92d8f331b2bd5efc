// Shadow objects behind driver handles. find() on a hot path is one thread-local probe; a miss takes the
// shard's lock.
//
// Infos live in slabs that are never given back, and a forgotten info is reused only after kQuarantine
// others: a pointer is good for the current call; keep (pointer, id) across calls and compare the id. Handles
// are reused by drivers, ids never. Any thread; no lock is held across a driver call.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/base/flat_map.h"

namespace shunt::model {

// Handle -> info, remembered per thread. Emptied whenever any handle of the table was forgotten (epoch).
template <class T>
struct HandleCache {
  static constexpr size_t kPlaces = 64;
  struct Place {
    uint64_t handle = 0;
    T* info = nullptr;
  };
  uint64_t epoch = 0;
  std::array<Place, kPlaces> places{};
};

template <class T>
class HandleTable {
 public:
  static constexpr size_t kQuarantine = 1024;

  T* find(uint64_t handle, HandleCache<T>* cache) {
    if (cache) {
      const uint64_t now = epoch_.load(std::memory_order_acquire);
      auto& place = cache->places[mix64(handle) % HandleCache<T>::kPlaces];
      if (cache->epoch == now && place.handle == handle && place.info) return place.info;
      if (cache->epoch != now) {
        cache->places = {};
        cache->epoch = now;
      }
      T* found = nullptr;
      if (!map_.find(handle, found)) return nullptr;
      place = {handle, found};
      return found;
    }
    T* found = nullptr;
    return map_.find(handle, found) ? found : nullptr;
  }

  // A new object for the handle; fill(T&) runs before others can see it. A handle already known is one the
  // driver destroyed without our seeing it (context teardown): its info is replaced.
  template <class F>
  T* insert(uint64_t handle, F&& fill) {
    T* info = acquire();
    info->id = next_id_.fetch_add(1, std::memory_order_relaxed);
    fill(*info);
    T* old = nullptr;
    if (map_.find(handle, old)) forget(handle);
    map_.put(handle, info);
    return info;
  }
  // find, or insert when another thread has not done so meanwhile.
  template <class F>
  T* find_or_insert(uint64_t handle, HandleCache<T>* cache, F&& fill) {
    if (T* found = find(handle, cache)) return found;
    T* info = acquire();
    info->id = next_id_.fetch_add(1, std::memory_order_relaxed);
    fill(*info);
    if (map_.put_new(handle, info)) return info;
    release(info);
    return find(handle, nullptr);
  }

  // Before the driver call that destroys the object: the handle may be handed out again at once by another
  // thread. Returns what restore() needs when that call fails.
  T* detach(uint64_t handle) {
    T* info = nullptr;
    if (!map_.erase(handle, &info)) return nullptr;
    epoch_.fetch_add(1, std::memory_order_acq_rel);
    return info;
  }
  void restore(uint64_t handle, T* info) {
    if (info && !map_.put_new(handle, info)) release(info);
  }
  void discard(T* info) {
    if (info) release(info);
  }
  bool forget(uint64_t handle) {
    T* info = detach(handle);
    discard(info);
    return info != nullptr;
  }
  template <class P>
  size_t forget_if(P&& predicate) {
    std::vector<uint64_t> victims;
    map_.for_each([&](uint64_t handle, T* const& info) {
      if (predicate(handle, *info)) victims.push_back(handle);
    });
    for (const uint64_t handle : victims) forget(handle);
    return victims.size();
  }
  template <class F>
  void for_each(F&& visit) {
    map_.for_each([&](uint64_t handle, T* const& info) { visit(handle, *info); });
  }
  size_t size() const { return map_.size(); }
  void reset_after_fork() {
    map_.reset_after_fork();
    lock_.reset_after_fork();
  }

 private:
  T* acquire() {
    WriteGuard guard(lock_);
    if (free_.size() - free_head_ > kQuarantine) {
      T* info = free_[free_head_++];
      if (free_head_ > 4096) {
        free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(free_head_));
        free_head_ = 0;
      }
      info->reset();
      return info;
    }
    if (slab_used_ == kSlab) {
      slab_ = new T[kSlab];
      slab_used_ = 0;
    }
    return &slab_[slab_used_++];
  }
  void release(T* info) {
    WriteGuard guard(lock_);
    free_.push_back(info);
  }

  static constexpr size_t kSlab = 64;
  ShardedMap<T*> map_;
  std::atomic<uint64_t> epoch_{1}, next_id_{1};
  SpinRwLock lock_;
  T* slab_ = nullptr;
  size_t slab_used_ = kSlab;
  std::vector<T*> free_;
  size_t free_head_ = 0;
};

}  // namespace shunt::model
