#include "tools/simgpu/exec/spare_parts.h"

#include <mutex>

namespace simgpu::exec {
namespace {

constexpr size_t kShelf = 16;  // kernels of a loop; each holds one block's memory

struct Shelf {
  std::mutex mutex;
  PartsKey keys[kShelf];
  Parts parts[kShelf];
  size_t next = 0;
};
Shelf& shelf() {
  static Shelf* s = new Shelf;
  return *s;
}

}  // namespace

Parts take_parts(const PartsKey& key) {
  Shelf& s = shelf();
  std::unique_lock lock(s.mutex, std::try_to_lock);
  if (!lock) return {};
  for (size_t k = 0; k < kShelf; ++k) {
    if (!(s.keys[k] == key)) continue;
    s.keys[k] = {};
    s.next = k;
    return std::move(s.parts[k]);
  }
  return {};
}

void leave_parts(const PartsKey& key, Parts&& parts) {
  Shelf& s = shelf();
  Parts old;  // freed without the lock
  std::unique_lock lock(s.mutex, std::try_to_lock);
  if (!lock) return;
  old = std::move(s.parts[s.next]);
  s.parts[s.next] = std::move(parts);
  s.keys[s.next] = key;
  s.next = (s.next + 1) % kShelf;
  lock.unlock();
}

}  // namespace simgpu::exec
