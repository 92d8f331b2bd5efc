#include "runtime/model/allocations.h"

#include <algorithm>

namespace shunt::model {
namespace {
bool overlap(const Allocation& a, uint64_t base, uint64_t bytes) {
  return a.base < base + bytes && base < a.base + a.bytes;
}
}  // namespace

void Allocations::drop_overlaps(uint64_t base, uint64_t bytes) {
  auto it = by_base_.upper_bound(base);
  if (it != by_base_.begin() && overlap(std::prev(it)->second, base, bytes)) --it;
  while (it != by_base_.end() && it->first < base + bytes) {
    if (!overlap(it->second, base, bytes)) {
      ++it;
      continue;
    }
    it = by_base_.erase(it);
    generation_.fetch_add(1, std::memory_order_release);
  }
}

uint64_t Allocations::insert(Allocation allocation) {
  allocation.id = next_id_.fetch_add(1, std::memory_order_relaxed);
  allocation.bytes = std::max<uint64_t>(allocation.bytes, 1);
  WriteGuard guard(lock_);
  drop_overlaps(allocation.base, allocation.bytes);
  by_base_[allocation.base] = allocation;
  return allocation.id;
}

std::optional<Allocation> Allocations::detach(uint64_t base) {
  WriteGuard guard(lock_);
  const auto it = by_base_.find(base);
  if (it == by_base_.end()) return std::nullopt;
  const Allocation out = it->second;
  by_base_.erase(it);
  generation_.fetch_add(1, std::memory_order_release);
  return out;
}

void Allocations::restore(const Allocation& a) {
  WriteGuard guard(lock_);
  auto it = by_base_.upper_bound(a.base);
  const bool taken = (it != by_base_.end() && overlap(it->second, a.base, a.bytes)) ||
                     (it != by_base_.begin() && overlap(std::prev(it)->second, a.base, a.bytes));
  if (!taken) by_base_[a.base] = a;
}

std::optional<Allocation> Allocations::find(uint64_t address) const {
  SharedGuard guard(lock_);
  auto it = by_base_.upper_bound(address);
  if (it == by_base_.begin()) return std::nullopt;
  const Allocation& a = std::prev(it)->second;
  if (address - a.base >= a.bytes) return std::nullopt;
  return a;
}

std::optional<Allocation> Allocations::find_id(uint64_t address, uint64_t id) const {
  auto found = find(address);
  return found && found->id == id ? found : std::nullopt;
}

std::vector<Allocation> Allocations::overlapping(uint64_t base, uint64_t bytes) const {
  std::vector<Allocation> out;
  SharedGuard guard(lock_);
  auto it = by_base_.upper_bound(base);
  if (it != by_base_.begin()) --it;
  for (; it != by_base_.end() && it->first < base + bytes; ++it)
    if (overlap(it->second, base, bytes)) out.push_back(it->second);
  return out;
}

size_t Allocations::forget_context(CUcontext context) {
  WriteGuard guard(lock_);
  const size_t removed = std::erase_if(by_base_, [&](const auto& entry) {
    const Allocation& a = entry.second;
    if (a.context != context) return false;
    return a.kind == MemoryKind::device || a.kind == MemoryKind::pitched || a.kind == MemoryKind::managed ||
           a.kind == MemoryKind::host || a.kind == MemoryKind::registered;
  });
  generation_.fetch_add(removed, std::memory_order_release);
  return removed;
}

size_t Allocations::size() const {
  SharedGuard guard(lock_);
  return by_base_.size();
}

uint64_t Allocations::bytes_on(int device) const {
  SharedGuard guard(lock_);
  uint64_t total = 0;
  for (const auto& [base, a] : by_base_)
    if (a.device == device && a.kind != MemoryKind::vmm_reservation) total += a.bytes;
  return total;
}

}  // namespace shunt::model
