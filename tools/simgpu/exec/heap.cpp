#include "tools/simgpu/exec/heap.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

#include "tools/simgpu/exec/core.h"

namespace simgpu::exec {
namespace {
constexpr uint64_t kHeapBytes = 8ull << 20;
struct Heap {
  std::mutex mutex;
  uint8_t* host = nullptr;
  std::map<uint64_t, uint64_t> used, free;  // offset -> bytes
};
Heap& heap() {
  static Heap* const h = new Heap;
  return *h;
}
}  // namespace

bool heap_region(Region& out) {
  Heap& h = heap();
  std::lock_guard lock(h.mutex);
  if (!h.host) return false;
  out = Region{};
  out.base = kHeapWindow;
  out.end = kHeapWindow + kHeapBytes;
  out.host = h.host;
  return true;
}
uint64_t heap_allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > kHeapBytes) return 0;
  bytes = (bytes + 15) & ~15ull;
  Heap& h = heap();
  std::lock_guard lock(h.mutex);
  if (!h.host) {
    void* p =
        mmap(nullptr, kHeapBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return 0;
    h.host = static_cast<uint8_t*>(p);
    h.free[0] = kHeapBytes;
  }
  for (auto it = h.free.begin(); it != h.free.end(); ++it) {
    if (it->second < bytes) continue;
    const uint64_t off = it->first, rest = it->second - bytes;
    h.free.erase(it);
    if (rest) h.free[off + bytes] = rest;
    h.used[off] = bytes;
    return kHeapWindow + off;
  }
  return 0;
}
void heap_free(uint64_t address) {
  Heap& h = heap();
  std::lock_guard lock(h.mutex);
  auto it = h.used.find(address - kHeapWindow);
  if (it == h.used.end()) return;
  uint64_t off = it->first, bytes = it->second;
  h.used.erase(it);
  auto next = h.free.lower_bound(off);
  if (next != h.free.end() && off + bytes == next->first) {
    bytes += next->second;
    next = h.free.erase(next);
  }
  if (next != h.free.begin()) {
    auto prev = std::prev(next);
    if (prev->first + prev->second == off) {
      prev->second += bytes;
      return;
    }
  }
  h.free[off] = bytes;
}

}  // namespace simgpu::exec
