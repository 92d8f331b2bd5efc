// A map from addresses to records for the launch path: readers take no lock, writers are serialised by their
// owner's lock. Entries are overwritten, never removed, and tables that were outgrown are leaked, so a reader
// that is late still reads valid memory. Lives as long as the process; constant-initialised, usable before
// any constructor ran.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace simgpu::cudart {

template <typename Value>
class PointerMap {
 public:
  constexpr PointerMap() = default;

  // Null when the key is not there.
  Value* find(const void* key) const {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr) return nullptr;
    for (size_t i = hash(key) & table->mask;; i = (i + 1) & table->mask) {
      const void* seen = table->slots[i].key.load(std::memory_order_acquire);
      if (seen == key) return table->slots[i].value.load(std::memory_order_acquire);
      if (seen == nullptr) return nullptr;
    }
  }

  // One writer at a time. A null value makes the key absent again.
  void set(const void* key, Value* value) {
    Table* table = table_.load(std::memory_order_relaxed);
    if (table == nullptr || (used_ + 1) * 4 > (table->mask + 1) * 3) table = grow(table);
    used_ += put(table, key, value);
  }

 private:
  struct Slot {
    std::atomic<const void*> key;
    std::atomic<Value*> value;
  };
  struct Table {
    size_t mask;
    Slot* slots;
  };

  static size_t hash(const void* key) {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull;
    return static_cast<size_t>(mixed >> 20);
  }

  static size_t put(Table* table, const void* key, Value* value) {
    for (size_t i = hash(key) & table->mask;; i = (i + 1) & table->mask) {
      Slot& slot = table->slots[i];
      const void* seen = slot.key.load(std::memory_order_relaxed);
      if (seen != nullptr && seen != key) continue;
      slot.value.store(value, std::memory_order_release);
      slot.key.store(key, std::memory_order_release);
      return seen == nullptr ? 1 : 0;
    }
  }

  Table* grow(Table* old) {
    const size_t capacity = old == nullptr ? 64 : (old->mask + 1) * 2;
    auto* slots = static_cast<Slot*>(std::calloc(capacity, sizeof(Slot)));
    auto* table = static_cast<Table*>(std::malloc(sizeof(Table)));
    if (slots == nullptr || table == nullptr) throw std::bad_alloc();
    table->mask = capacity - 1;
    table->slots = slots;
    used_ = 0;
    for (size_t i = 0; old != nullptr && i <= old->mask; ++i) {
      Value* value = old->slots[i].value.load(std::memory_order_relaxed);
      if (value != nullptr) used_ += put(table, old->slots[i].key.load(std::memory_order_relaxed), value);
    }
    table_.store(table, std::memory_order_release);
    return table;
  }

  std::atomic<Table*> table_{nullptr};
  size_t used_ = 0;
};

}  // namespace simgpu::cudart
