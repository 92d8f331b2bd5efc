#include "tools/simgpu/driver/core/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/memcheck.h"
#include "tools/simgpu/driver/core/shared_charge.h"

namespace simgpu::driver {
namespace {
// Fixed places make device pointers the same in every run; where taken, any place will do.
constexpr uint64_t kWindowHint = uint64_t{0x2} << 44;
constexpr uint64_t kWindowStride = uint64_t{0x4} << 40;
constexpr uint64_t kGuard =
    DeviceHeap::kPage;  // never handed out: small offsets from a window start stay invalid

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

bool poison_new_memory() {
  static const bool on = [] {
    const char* text = getenv("SIMGPU_INIT");
    return text && !strcmp(text, "poison");
  }();
  return on;
}
}  // namespace

MemoryMap& MemoryMap::get() {
  static MemoryMap* map = new MemoryMap;
  return *map;
}
void MemoryMap::insert(const AllocationRef& allocation) {
  if (!allocation->id) allocation->id = next_id();
  if (memcheck_on()) memcheck_track(*allocation);
  std::unique_lock<std::shared_mutex> lock(mutex_);
  by_base_[allocation->base] = allocation;
}
AllocationRef MemoryMap::erase(uint64_t base) {
  if (memcheck_on()) memcheck_forget(base);
  std::unique_lock<std::shared_mutex> lock(mutex_);
  auto it = by_base_.find(base);
  if (it == by_base_.end()) return nullptr;
  AllocationRef found = std::move(it->second);
  by_base_.erase(it);
  return found;
}
AllocationRef MemoryMap::find(uint64_t address) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto it = by_base_.upper_bound(address);
  if (it == by_base_.begin()) return nullptr;
  --it;
  return address < it->second->end() ? it->second : nullptr;
}
AllocationRef MemoryMap::at(uint64_t base) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto it = by_base_.find(base);
  return it == by_base_.end() ? nullptr : it->second;
}
bool MemoryMap::overlaps(uint64_t base, uint64_t size) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto it = by_base_.lower_bound(base + size);
  if (it == by_base_.begin()) return false;
  --it;
  return it->second->end() > base;
}
std::vector<AllocationRef> MemoryMap::of_context(uint64_t context_id) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<AllocationRef> result;
  for (const auto& [base, allocation] : by_base_) {
    if (allocation->context_id == context_id) result.push_back(allocation);
  }
  return result;
}
uint64_t MemoryMap::next_id() { return next_id_.fetch_add(1); }

DeviceHeap::DeviceHeap(int box_index, int ordinal, uint64_t capacity_bytes) : box_index_(box_index) {
  // Twice the capacity, so that fragmentation of addresses is never why a request fails.
  window_bytes_ = round_up(2 * capacity_bytes + 2 * kGuard, kPage);
  fd_ = memfd_create("simgpu-device", MFD_CLOEXEC);
  if (fd_ < 0 || ftruncate(fd_, off_t(window_bytes_)) != 0) {
    log_line(LogLevel::error, "cannot create device memory of %llu bytes: %s",
             (unsigned long long)window_bytes_, strerror(errno));
    window_bytes_ = 0;
    return;
  }
  void* hint = reinterpret_cast<void*>(kWindowHint + uint64_t(ordinal) * kWindowStride);
  void* window = mmap(hint, window_bytes_, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (window == MAP_FAILED)
    window = mmap(nullptr, window_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* alias = mmap(nullptr, window_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (window == MAP_FAILED || alias == MAP_FAILED) {
    log_line(LogLevel::error, "cannot map device memory of %llu bytes: %s", (unsigned long long)window_bytes_,
             strerror(errno));
    window_bytes_ = 0;
    return;
  }
  madvise(alias, window_bytes_, MADV_DONTDUMP);
  window_ = reinterpret_cast<uint64_t>(window);
  alias_ = static_cast<uint8_t*>(alias);
  free_[window_ + kGuard] = window_bytes_ - 2 * kGuard;
}

bool DeviceHeap::reserve_capacity(uint64_t bytes) { return reserve_box_memory(box_index_, bytes); }
void DeviceHeap::release_capacity(uint64_t bytes) { Box::get()->release(box_index_, bytes); }

bool DeviceHeap::account(uint64_t begin, uint64_t end) {
  const uint64_t first = begin / kPage, last = (end - 1) / kPage;
  uint64_t fresh = 0;
  // Only the outer pages can be shared with other blocks.
  for (uint64_t page : {first, last}) fresh += page_users_.count(page) ? 0 : 1;
  if (first == last) fresh = page_users_.count(first) ? 0 : 1;
  if (last > first + 1) fresh += last - first - 1;
  if (fresh && !reserve_capacity(fresh * kPage)) return false;
  ++page_users_[first];
  if (last != first) ++page_users_[last];
  return true;
}
void DeviceHeap::unaccount(uint64_t begin, uint64_t end) {
  const uint64_t first = begin / kPage, last = (end - 1) / kPage;
  uint64_t gone = last > first + 1 ? last - first - 1 : 0;
  auto leave = [&](uint64_t page) {
    auto it = page_users_.find(page);
    if (--it->second == 0) {
      page_users_.erase(it);
      ++gone;
    }
  };
  leave(first);
  if (last != first) leave(last);
  if (gone) release_capacity(gone * kPage);
}

uint64_t DeviceHeap::allocate(uint64_t bytes, uint64_t alignment) {
  if (!bytes || bytes > window_bytes_) return 0;
  const bool own_pages = bytes >= kPage / 2;
  if (own_pages) alignment = std::max(alignment, kPage);
  const uint64_t take = round_up(bytes, own_pages ? kPage : 512);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t start = round_up(it->first, alignment);
    const uint64_t end = it->first + it->second;
    if (start + take > end) continue;
    if (!account(start, start + take)) return 0;
    const uint64_t before = start - it->first, after = end - (start + take);
    const uint64_t hole = it->first;
    free_.erase(it);
    if (before) free_[hole] = before;
    if (after) free_[start + take] = after;
    used_[start] = take;
    if (poison_new_memory()) {
      memset(host(start), 0xCD, take);
    } else if (!own_pages) {
      memset(host(start), 0, take);
    }
    return start;
  }
  return 0;
}

void DeviceHeap::release(uint64_t address) {
  auto it = used_.find(address);
  if (it == used_.end()) return;
  const uint64_t bytes = it->second;
  used_.erase(it);
  unaccount(address, address + bytes);
  if (bytes >= kPage / 2) {  // whole pages: give them back, they read as zero next time
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(address - window_), off_t(bytes));
  }
  uint64_t begin = address, size = bytes;
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == begin + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      begin = previous->first;
      size += previous->second;
      free_.erase(previous);
    }
  }
  free_[begin] = size;
}

uint64_t DeviceHeap::block_bytes(uint64_t address) const {
  auto it = used_.find(address);
  return it == used_.end() ? 0 : it->second;
}

void* map_host_memory(uint64_t bytes) {
  void* p = mmap(nullptr, round_up(bytes, 4096), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
void unmap_host_memory(void* address, uint64_t bytes) { munmap(address, round_up(bytes, 4096)); }

bool may_access(const Context& context, const Allocation& a, bool& writable) {
  writable = !a.read_only;
  if (a.host_visible()) return true;
  const int device = context.device->ordinal;
  if (!a.rights.empty()) {
    const uint8_t rights = device < int(a.rights.size()) ? a.rights[size_t(device)] : 0;
    writable = rights == 3 && !a.read_only;
    return rights != 0;
  }
  if (a.device == device) return !a.context_id || a.context_id == context.id;
  return a.device >= 0 && (context.peers.load(std::memory_order_relaxed) >> a.device & 1);
}

namespace {
// What kernels reach instead of memory behind a broken link: a place where reads give zeros until something
// is written. One for each allocation and device, never given back: few programs go on after finding this
// out.
uint8_t* nowhere(const Allocation& a, int device) {
  static auto* mutex = new std::mutex;
  static auto* places = new std::map<std::pair<uint64_t, int>, uint8_t*>;
  std::lock_guard<std::mutex> lock(*mutex);
  uint8_t*& place = (*places)[{a.id, device}];
  if (!place) place = static_cast<uint8_t*>(map_host_memory(a.size));
  return place;
}
}  // namespace

bool ContextSpace::find(uint64_t address, exec::Region& out) const {
  const AllocationRef a = MemoryMap::get().find(address);
  if (!a) {
    const std::string_view addressing = context_.device->profile->addressing;
    if (addressing != "hmm" && addressing != "ats") return false;
    uint64_t begin, end;
    bool writable;
    if (!host_range_mapped(address, begin, end, writable)) return false;
    out = {begin, end, reinterpret_cast<uint8_t*>(begin), 0, writable, true, false};
    return true;
  }
  bool writable;
  if (!may_access(context_, *a, writable)) return false;
  out.base = a->base;
  out.end = a->end();
  out.host = a->host;
  out.id = a->id;
  out.writable = writable;
  // Managed memory counts as local: what migrates is charged by prefetch and first touch, not by each access.
  const bool local = a->kind == MemoryKind::managed || a->device == context_.device->ordinal;
  out.remote = !local;
  out.peer = !local && a->device >= 0 && !a->host_visible();
  if (out.peer && context_.device->p2p(*device_at(a->device)) == P2p::broken)
    out.host = nowhere(*a, context_.device->ordinal);
  return true;
}

bool host_range_mapped(uint64_t address, uint64_t& begin, uint64_t& end, bool& writable) {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (!maps) return false;
  char line[512];
  bool found = false;
  while (!found && fgets(line, sizeof line, maps)) {
    unsigned long long from, to;
    char rights[8];
    if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) != 3) continue;
    if (address < from || address >= to || rights[0] != 'r') continue;
    begin = from;
    end = to;
    writable = rights[1] == 'w';
    found = true;
  }
  fclose(maps);
  return found;
}
}  // namespace simgpu::driver
