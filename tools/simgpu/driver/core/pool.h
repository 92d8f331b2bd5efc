// Memory pools of stream-ordered allocation. A pool takes chunks from a device heap (or the host) and hands
// out blocks; a freed block carries the free operations that must run before its next use, so an address may
// be issued again in stream order while the device is still busy with the former owner. Two views exist: what
// the program has allocated (here, at the call) and what the device may touch (the memory map, when the
// allocation or free executes). Engine mutex held. Pools outlive contexts; nothing happens at exit.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/hooks.h"

namespace simgpu::driver {

struct PoolChunk {
  uint64_t base = 0, bytes = 0;
  uint8_t* host = nullptr;
  uint32_t users = 0;  // blocks handed out, or freed with their free not yet complete
};
struct FreeBlock {
  uint64_t bytes = 0;
  uint64_t chunk = 0;
  std::shared_ptr<Stream> stream;  // of the free; null when nothing is pending
  std::vector<OpRef> pending;      // frees (and allocations) the next owner must come after
};

struct MemoryPool : Object {
  static constexpr Kind kKind = Kind::memory_pool;
  MemoryPool() : Object(Kind::memory_pool) {}
  ~MemoryPool() override;
  CUmemPoolProps props = {};
  int device = -1;  // -1: host memory
  bool is_default = false;
  bool imported = false;
  bool destroyed = false;  // by the program: goes when its last allocation goes
  uint64_t unique = 0;     // in the box, for exported pools
  int shared_fd = -1;      // memfd of the description handed to other processes
  uint64_t release_threshold = 0;
  int follow_events = 1, opportunistic = 1, internal_dependencies = 1;
  uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  std::vector<uint8_t> rights;  // per visible ordinal: 0, 1 read, 3 read and write
  std::map<uint64_t, PoolChunk> chunks;
  std::map<uint64_t, FreeBlock> free_blocks;
  std::map<uint64_t, AllocationRef> live;  // as the program sees them
  uint64_t exporter_pid = 0;               // imported pools
};

std::shared_ptr<MemoryPool> default_pool(int device);  // device -1: the host's
std::shared_ptr<MemoryPool> current_pool(int device);
void set_current_pool(int device, std::shared_ptr<MemoryPool> pool);
CUresult create_pool(const CUmemPoolProps& props, std::shared_ptr<MemoryPool>& out);
void destroy_pool(const std::shared_ptr<MemoryPool>& pool);
// The allocation operation in `stream`; OUT_OF_MEMORY at the call.
CUresult pool_allocate(Lock& lock, const std::shared_ptr<MemoryPool>& pool, uint64_t bytes,
                       const std::shared_ptr<Stream>& stream, CUdeviceptr& out);
CUresult pool_free_async(Lock& lock, const AllocationRef& allocation, const std::shared_ptr<Stream>& stream);
CUresult pool_free_now(Lock& lock, const AllocationRef& allocation);
// Releases chunks nobody uses until at most `keep` bytes stay.
void pool_trim(MemoryPool& pool, uint64_t keep);
void pool_set_rights(MemoryPool& pool, int device, uint8_t rights);
// After a synchronisation: pools above their threshold give memory back.
void pools_after_wait();
// Memory of another process's pool.
CUresult pool_export(MemoryPool& pool, int& fd);
CUresult pool_import(int fd, std::shared_ptr<MemoryPool>& out);
CUresult pool_export_pointer(CUdeviceptr pointer, CUmemPoolPtrExportData& out);
CUresult pool_import_pointer(const std::shared_ptr<MemoryPool>& pool, const CUmemPoolPtrExportData& data,
                             CUdeviceptr& out);
}  // namespace simgpu::driver
