// What memory exists. Device pointers are addresses in a window that the host cannot touch (PROT_NONE); the
// bytes live behind an alias mapping of the same memfd. One map holds every allocation of the process:
// device, pinned, registered, managed, pool and mapped memory. MemoryMap has its own reader/writer lock and
// may be used without the engine mutex (executing kernels look regions up); DeviceHeap is guarded by the
// engine mutex.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/core/cuda_api.h"
#include "tools/simgpu/exec/exec.h"

namespace simgpu::driver {

struct Context;
struct Device;

enum class MemoryKind : uint8_t {
  device,
  pinned,
  registered,
  managed,
  pool,
  mapped /* VMM */,
  imported,
  global
};

struct Allocation {
  uint64_t base = 0, size = 0;
  MemoryKind kind = MemoryKind::device;
  int device = -1;          // visible ordinal of the owning or preferred device; -1 for host
  uint64_t context_id = 0;  // owner; 0 for memory not bound to a context (VMM, host registered portable)
  uint8_t* host = nullptr;  // where this process reads and writes byte `base`
  uint64_t id = 0;          // unique, = CU_POINTER_ATTRIBUTE_BUFFER_ID
  unsigned flags = 0;       // CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*, CU_MEM_ATTACH_*
  bool sync_memops = false;
  bool read_only = false;
  // VMM and pool memory: explicit rights per visible ordinal (0 none, 1 read, 3 read/write). Empty: by
  // context and peers.
  std::vector<uint8_t> rights;
  std::shared_ptr<void> backing;            // keeps pool blocks, VMM handles, imported mappings alive
  void* pool = nullptr;                     // owning pool's object
  uint64_t range_base = 0, range_size = 0;  // what cuMemGetAddressRange reports when it differs
  // managed memory: advice and residency (cost model and attributes)
  int preferred_location = -2 /* none */, last_prefetch = -2;
  bool read_mostly = false;
  uint64_t accessed_by = 0;  // bit per ordinal; bit 63 host
  bool host_visible() const {
    return kind == MemoryKind::pinned || kind == MemoryKind::registered || kind == MemoryKind::managed;
  }
  uint64_t end() const { return base + size; }
};
using AllocationRef = std::shared_ptr<Allocation>;

class MemoryMap {
 public:
  static MemoryMap& get();
  void insert(const AllocationRef& allocation);
  AllocationRef erase(uint64_t base);          // null when no allocation starts there
  AllocationRef find(uint64_t address) const;  // the allocation containing address
  AllocationRef at(uint64_t base) const;       // the allocation starting at base
  bool overlaps(uint64_t base, uint64_t size) const;
  std::vector<AllocationRef> of_context(uint64_t context_id) const;
  uint64_t next_id();

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, AllocationRef> by_base_;
  std::atomic<uint64_t> next_id_{1};
};

// Device memory of one device: window, memfd, first-fit allocator with coalescing. Capacity is accounted in
// the box in 2 MiB pages, as the driver does: small blocks share pages, blocks of 1 MiB and more start their
// own.
class DeviceHeap {
 public:
  DeviceHeap(int box_index, int ordinal, uint64_t capacity_bytes);
  // Address of a block, 0 when the device is full. Contents are zero, or poison with SIMGPU_INIT=poison.
  uint64_t allocate(uint64_t bytes, uint64_t alignment = 512);
  void release(uint64_t address);
  uint64_t block_bytes(uint64_t address) const;
  uint8_t* host(uint64_t address) const { return alias_ + (address - window_); }
  bool contains(uint64_t address) const { return address >= window_ && address < window_ + window_bytes_; }
  int fd() const { return fd_; }
  uint64_t window() const { return window_; }
  // Capacity without placing (VMM physical memory, pools of other processes).
  bool reserve_capacity(uint64_t bytes);
  void release_capacity(uint64_t bytes);
  static constexpr uint64_t kPage = uint64_t{2} << 20;

 private:
  bool account(uint64_t begin, uint64_t end);
  void unaccount(uint64_t begin, uint64_t end);
  const int box_index_;
  int fd_ = -1;
  uint64_t window_ = 0, window_bytes_ = 0;
  uint8_t* alias_ = nullptr;
  std::map<uint64_t, uint64_t> free_;                  // address -> bytes
  std::unordered_map<uint64_t, uint64_t> used_;        // address -> bytes
  std::unordered_map<uint64_t, uint32_t> page_users_;  // page index -> live blocks
};

// Host-visible memory (pinned, managed): page-aligned anonymous mappings.
void* map_host_memory(uint64_t bytes);
void unmap_host_memory(void* address, uint64_t bytes);

// Memory as kernels launched in one context may see it.
class ContextSpace : public exec::AddressSpace {
 public:
  explicit ContextSpace(const Context& context) : context_(context) {}
  bool find(uint64_t address, exec::Region& out) const override;

 private:
  const Context& context_;
};
// Whether work of `context` may touch the allocation; the reason a kernel gets 700 otherwise.
bool may_access(const Context& context, const Allocation& allocation, bool& writable);

// Pageable host memory that device kernels may touch (profile.addressing hmm/ats): readable/writable by this
// process.
bool host_range_mapped(uint64_t address, uint64_t& begin, uint64_t& end, bool& writable);

}  // namespace simgpu::driver
