#include "tools/simgpu/driver/core/pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_set>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/race.h"
#include "tools/simgpu/driver/core/shared_memory.h"

namespace simgpu::driver {
namespace {
constexpr uint64_t kPage = DeviceHeap::kPage;
constexpr uint64_t kChunk = uint64_t{32} << 20;  // what a pool asks of the device at least
constexpr uint64_t kBlock = 512;

struct State {
  std::map<int, std::shared_ptr<MemoryPool>> defaults, current;
  std::set<MemoryPool*> all;
  std::set<std::shared_ptr<MemoryPool>> dying;  // destroyed with allocations outstanding
};
State& state() {
  static State* instance = new State;
  return *instance;
}
uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

bool observed_done(const OpRef& op) { return op->completed && op->end_ns <= host_now(); }

// Whether everything submitted to `stream` from now on runs after `op` without another dependency.
bool ordered_before(const Stream& stream, const OpRef& op) {
  if (!stream.tail) return false;
  std::vector<OpRef> open = {stream.tail};
  std::unordered_set<const Op*> seen;
  while (!open.empty()) {
    const OpRef at = std::move(open.back());
    open.pop_back();
    if (at == op) return true;
    if (at->seq < op->seq || !seen.insert(at.get()).second) continue;  // causes come before effects
    for (const auto& weak : at->dependencies)
      if (OpRef before = weak.lock()) open.push_back(std::move(before));
  }
  return false;
}

// Joins neighbours that nothing pending keeps apart. `synchronised`: the host has waited or gives memory
// back, so finished frees count even where the pool does not reuse them by itself.
void coalesce(MemoryPool& pool, bool synchronised = false) {
  for (auto& [address, block] : pool.free_blocks) {
    if (!pool.opportunistic && !synchronised) continue;
    std::erase_if(block.pending, [](const OpRef& op) { return observed_done(op); });
    if (block.pending.empty()) block.stream.reset();
  }
  auto at = pool.free_blocks.begin();
  while (at != pool.free_blocks.end()) {
    auto next = std::next(at);
    if (next == pool.free_blocks.end()) break;
    FreeBlock &a = at->second, &b = next->second;
    const bool touch = a.chunk == b.chunk && at->first + a.bytes == next->first;
    const bool alike = a.pending.empty() ? b.pending.empty() : a.stream && a.stream == b.stream;
    if (touch && alike) {
      a.bytes += b.bytes;
      a.pending.insert(a.pending.end(), b.pending.begin(), b.pending.end());
      pool.free_blocks.erase(next);
    } else {
      at = next;
    }
  }
}

bool add_chunk(MemoryPool& pool, uint64_t bytes) {
  PoolChunk chunk;
  chunk.bytes = bytes;
  if (pool.props.maxSize && pool.reserved + bytes > round_up(pool.props.maxSize, kPage)) return false;
  if (pool.device >= 0) {
    DeviceHeap& heap = *device_at(pool.device)->heap;
    chunk.base = heap.allocate(bytes);
    if (!chunk.base) return false;
    chunk.host = heap.host(chunk.base);
  } else {
    void* p = map_host_memory(bytes);
    if (!p) return false;
    chunk.base = reinterpret_cast<uint64_t>(p);
    chunk.host = static_cast<uint8_t*>(p);
  }
  FreeBlock block;
  block.bytes = bytes;
  block.chunk = chunk.base;
  pool.free_blocks[chunk.base] = block;
  pool.chunks[chunk.base] = chunk;
  pool.reserved += bytes;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return true;
}

void drop_chunk(MemoryPool& pool, uint64_t base) {
  const PoolChunk chunk = pool.chunks[base];
  pool.free_blocks.erase(base);
  pool.chunks.erase(base);
  pool.reserved -= chunk.bytes;
  if (pool.device >= 0) {
    device_at(pool.device)->heap->release(chunk.base);
  } else {
    unmap_host_memory(chunk.host, chunk.bytes);
  }
}

// Smallest block that fits, from the cheapest source: same stream, done, ordered already, to be ordered.
std::map<uint64_t, FreeBlock>::iterator choose(MemoryPool& pool, uint64_t bytes, const Stream& stream,
                                               std::vector<OpRef>& dependencies) {
  auto best = pool.free_blocks.end();
  int best_source = 4;
  for (auto at = pool.free_blocks.begin(); at != pool.free_blocks.end(); ++at) {
    const FreeBlock& block = at->second;
    if (block.bytes < bytes) continue;
    int source = 3;
    if (block.stream && block.stream.get() == &stream) {
      source = 0;
    } else if (block.pending.empty()) {
      source = 1;
    } else if (pool.follow_events &&
               std::all_of(block.pending.begin(), block.pending.end(),
                           [&](const OpRef& op) { return ordered_before(stream, op); })) {
      source = 2;
    } else if (!pool.internal_dependencies) {
      continue;
    }
    if (source < best_source ||
        (source == best_source && best != pool.free_blocks.end() && block.bytes < best->second.bytes)) {
      best = at;
      best_source = source;
    }
  }
  if (best != pool.free_blocks.end() && best_source == 3) dependencies = best->second.pending;
  return best;
}

void forget(const std::shared_ptr<MemoryPool>& pool) {
  if (!pool->destroyed || !pool->live.empty()) return;
  for (const auto& [address, block] : pool->free_blocks)
    for (const OpRef& op : block.pending)
      if (!op->completed) return;
  state().dying.erase(pool);
}

// The program's view at any address, and the pool it is from.
AllocationRef live_at(uint64_t address) {
  for (MemoryPool* pool : state().all) {
    auto at = pool->live.upper_bound(address);
    if (at == pool->live.begin()) continue;
    --at;
    if (address < at->second->end()) return at->second;
  }
  return nullptr;
}
std::shared_ptr<MemoryPool> pool_of(const Allocation& allocation) {
  MemoryPool* pool = static_cast<MemoryPool*>(allocation.pool);
  return state().all.count(pool) ? shared(pool) : nullptr;
}
CUresult free_entry(Lock& lock, const AllocationRef& allocation) { return pool_free_now(lock, allocation); }
CUmemoryPool handle_entry(const Allocation& allocation) {
  const auto pool = pool_of(allocation);
  return pool ? handle_of<CUmemoryPool>(*pool) : nullptr;
}
[[maybe_unused]] const bool installed = [] {
  g_free_pool_memory = free_entry;
  g_pool_of = handle_entry;
  g_pool_memory_at = live_at;
  g_after_wait = pools_after_wait;
  return true;
}();

std::shared_ptr<MemoryPool> make_pool(const CUmemPoolProps& props, int device) {
  auto pool = std::make_shared<MemoryPool>();
  pool->props = props;
  pool->device = device;
  pool->rights.assign(platform()->devices.size(), 0);
  if (device >= 0) pool->rights[size_t(device)] = 3;
  state().all.insert(pool.get());
  make_handle(pool);
  return pool;
}
}  // namespace

MemoryPool::~MemoryPool() {
  while (!chunks.empty()) drop_chunk(*this, chunks.begin()->first);
  if (shared_fd >= 0) close(shared_fd);
  state().all.erase(this);
}

std::shared_ptr<MemoryPool> default_pool(int device) {
  auto& pool = state().defaults[device];
  if (!pool) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = device >= 0 ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST;
    props.location.id = device >= 0 ? device : 0;
    pool = make_pool(props, device);
    pool->is_default = true;
  }
  return pool;
}
std::shared_ptr<MemoryPool> current_pool(int device) {
  const auto& pool = state().current[device];
  return pool ? pool : default_pool(device);
}
void set_current_pool(int device, std::shared_ptr<MemoryPool> pool) {
  state().current[device] = std::move(pool);
}

CUresult create_pool(const CUmemPoolProps& props, std::shared_ptr<MemoryPool>& out) {
  SIMGPU_REQUIRE(props.allocType != CU_MEM_ALLOCATION_TYPE_MANAGED, CUDA_ERROR_NOT_SUPPORTED);
  SIMGPU_REQUIRE(props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!props.win32SecurityAttributes, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(std::all_of(std::begin(props.reserved), std::end(props.reserved),
                             [](unsigned char c) { return c == 0; }),
                 CUDA_ERROR_INVALID_VALUE);
  const int types = int(props.handleTypes);
  SIMGPU_REQUIRE(types == CU_MEM_HANDLE_TYPE_NONE || types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                 CUDA_ERROR_NOT_SUPPORTED);
  int device = -1;
  switch (props.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      SIMGPU_REQUIRE(device_at(props.location.id), CUDA_ERROR_INVALID_VALUE);
      device = props.location.id;
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
      SIMGPU_REQUIRE(types == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE);
      break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      SIMGPU_REQUIRE(props.location.id >= 0, CUDA_ERROR_INVALID_VALUE);
      SIMGPU_REQUIRE(types == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(fault_point("pool", CUDA_ERROR_OUT_OF_MEMORY));
  out = make_pool(props, device);
  return CUDA_SUCCESS;
}

void destroy_pool(const std::shared_ptr<MemoryPool>& pool) {
  for (auto& [device, current] : state().current)
    if (current == pool) current.reset();
  drop_handle(*pool);
  pool->destroyed = true;
  state().dying.insert(pool);
  forget(pool);
}

CUresult pool_allocate(Lock& lock, const std::shared_ptr<MemoryPool>& pool, uint64_t bytes,
                       const std::shared_ptr<Stream>& stream, CUdeviceptr& out) {
  SIMGPU_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("alloc_async", CUDA_ERROR_OUT_OF_MEMORY));
  SIMGPU_REQUIRE(bytes <= (uint64_t{1} << 46), CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t take = round_up(bytes, kBlock);
  SIMGPU_REQUIRE(!pool->props.maxSize || pool->used + take <= round_up(pool->props.maxSize, kPage),
                 CUDA_ERROR_OUT_OF_MEMORY);
  coalesce(*pool);
  std::vector<OpRef> dependencies;
  auto place = choose(*pool, take, *stream, dependencies);
  if (place == pool->free_blocks.end()) {
    const uint64_t exact = round_up(take, kPage);
    bool grown = add_chunk(*pool, std::max(exact, kChunk)) || add_chunk(*pool, exact);
    if (!grown) {
      // Other pools of the device may hold memory nobody uses.
      for (MemoryPool* other : state().all)
        if (other->device == pool->device && !other->imported) pool_trim(*other, 0);
      grown = add_chunk(*pool, exact);
    }
    if (!grown && stream->tail) {
      // Frees still on their way may make room: the allocator waits for them before it gives up.
      std::vector<OpRef> pending;
      for (MemoryPool* other : state().all)
        if (other->device == pool->device)
          for (const auto& [address, block] : other->free_blocks)
            pending.insert(pending.end(), block.pending.begin(), block.pending.end());
      if (!pending.empty()) {
        auto context = stream->context.lock();
        SIMGPU_TRY(wait_for(lock, *context, pending));
        for (MemoryPool* other : state().all)
          if (other->device == pool->device && !other->imported) pool_trim(*other, 0);
        grown = add_chunk(*pool, exact);
      }
    }
    coalesce(*pool);
    place = choose(*pool, take, *stream, dependencies);
    SIMGPU_REQUIRE(place != pool->free_blocks.end(), CUDA_ERROR_OUT_OF_MEMORY);
  }
  const uint64_t address = place->first;
  FreeBlock rest = place->second;
  const uint64_t chunk = rest.chunk;

  auto allocation = std::make_shared<Allocation>();
  allocation->base = address;
  allocation->size = bytes;
  allocation->kind = MemoryKind::pool;
  allocation->device = pool->device;
  allocation->host = pool->chunks[chunk].host + (address - chunk);
  allocation->rights = pool->rights;
  allocation->pool = pool.get();
  allocation->id = MemoryMap::get().next_id();
  allocation->flags = unsigned(pool->props.handleTypes);
  // Taken before submit(), which may give up the mutex when the stream's queue is full.
  const FreeBlock whole = rest;
  pool->free_blocks.erase(place);
  if (rest.bytes > take) {
    rest.bytes -= take;
    pool->free_blocks[address + take] = rest;
  }
  ++pool->chunks[chunk].users;
  const CUresult submitted = submit(
      lock, stream,
      std::make_shared<ActionBody>(
          OpKind::alloc, "allocation", [allocation](Op&) { MemoryMap::get().insert(allocation); }, 100),
      nullptr, dependencies);
  if (submitted != CUDA_SUCCESS) {
    --pool->chunks[chunk].users;
    FreeBlock back = whole;
    back.bytes = take;
    pool->free_blocks[address] = std::move(back);
    return submitted;
  }
  pool->live[address] = allocation;
  pool->used += take;
  pool->used_high = std::max(pool->used_high, pool->used);
  out = address;
  return CUDA_SUCCESS;
}

namespace {
// The block of a live allocation returns to its pool behind `op` (null: free at once).
void give_back(const std::shared_ptr<MemoryPool>& pool, const Allocation& allocation,
               const std::shared_ptr<Stream>& stream, const OpRef& op) {
  const uint64_t address = allocation.base;
  pool->live.erase(address);
  const uint64_t take = round_up(allocation.size, kBlock);
  pool->used -= std::min(pool->used, take);
  if (pool->imported) return;
  auto chunk = std::prev(pool->chunks.upper_bound(address));
  --chunk->second.users;
  FreeBlock block;
  block.bytes = take;
  block.chunk = chunk->first;
  if (op) {
    block.stream = stream;
    block.pending.push_back(op);
  }
  pool->free_blocks[address] = std::move(block);
}
}  // namespace

CUresult pool_free_async(Lock& lock, const AllocationRef& allocation, const std::shared_ptr<Stream>& stream) {
  const auto pool = pool_of(*allocation);
  SIMGPU_REQUIRE(pool && pool->live.count(allocation->base) && pool->live[allocation->base] == allocation,
                 CUDA_ERROR_INVALID_VALUE);
  OpRef op;
  SIMGPU_TRY(submit(
      lock, stream,
      std::make_shared<ActionBody>(
          OpKind::free, "free",
          [allocation](Op& freeing) {
            // To the race detector a free is a write: whoever uses the memory must be before it.
            if (races_watched())
              freeing.extra_accesses.push_back({allocation->base, allocation->end(), exec::Access::write});
            if (MemoryMap::get().at(allocation->base) == allocation) MemoryMap::get().erase(allocation->base);
          },
          100),
      &op));
  SIMGPU_REQUIRE(op, CUDA_ERROR_UNKNOWN);
  // A second thread may have freed it while the queue was full.
  SIMGPU_REQUIRE(pool->live.count(allocation->base) && pool->live[allocation->base] == allocation,
                 CUDA_ERROR_INVALID_VALUE);
  give_back(pool, *allocation, stream, op);
  const std::weak_ptr<MemoryPool> weak = pool;
  op->on_completed.push_back([weak](Op&) {
    if (auto p = weak.lock()) forget(p);
  });
  return CUDA_SUCCESS;
}

CUresult pool_free_now(Lock& lock, const AllocationRef& allocation) {
  const auto pool = pool_of(*allocation);
  SIMGPU_REQUIRE(pool && pool->live.count(allocation->base) && pool->live[allocation->base] == allocation,
                 CUDA_ERROR_INVALID_VALUE);
  for (Device* device : platform()->devices)
    if (device->primary && (device->ordinal == allocation->device || allocation->device < 0))
      SIMGPU_TRY(wait_for(lock, *device->primary, context_targets(*device->primary)));
  if (Context* current = current_context()) SIMGPU_TRY(wait_for(lock, *current, context_targets(*current)));
  SIMGPU_REQUIRE(pool->live.count(allocation->base) && pool->live[allocation->base] == allocation,
                 CUDA_ERROR_INVALID_VALUE);
  if (MemoryMap::get().at(allocation->base) == allocation) MemoryMap::get().erase(allocation->base);
  give_back(pool, *allocation, nullptr, nullptr);
  forget(pool);
  return CUDA_SUCCESS;
}

void pool_trim(MemoryPool& pool, uint64_t keep) {
  coalesce(pool, true);
  std::vector<uint64_t> idle;
  for (const auto& [base, chunk] : pool.chunks) {
    auto block = pool.free_blocks.find(base);
    if (chunk.users || block == pool.free_blocks.end() || !block->second.pending.empty()) continue;
    if (block->second.bytes == chunk.bytes) idle.push_back(base);
  }
  for (uint64_t base : idle)
    if (pool.reserved - pool.chunks[base].bytes >= keep) drop_chunk(pool, base);
}

void pool_set_rights(MemoryPool& pool, int device, uint8_t rights) {
  pool.rights[size_t(device)] = rights;
  // The vector keeps its size: kernels read it without the engine mutex.
  for (auto& [address, allocation] : pool.live) allocation->rights[size_t(device)] = rights;
}

void pools_after_wait() {
  for (MemoryPool* pool : state().all)
    if (!pool->imported && pool->reserved > pool->release_threshold)
      pool_trim(*pool, pool->release_threshold);
}

namespace {
constexpr uint64_t kPoolMagic = 0x6c6f6f70'75706773;  // "sgpupool"
struct PoolDescription {                              // in the exported file
  uint64_t magic = kPoolMagic, unique = 0;
  FileRange heap;
};
struct PointerDescription {  // in CUmemPoolPtrExportData
  uint64_t magic, unique, offset, bytes;
};
static_assert(sizeof(PointerDescription) <= sizeof(CUmemPoolPtrExportData));
}  // namespace

CUresult pool_export(MemoryPool& pool, int& fd) {
  SIMGPU_REQUIRE(!pool.imported && pool.device >= 0 &&
                     pool.props.handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                 CUDA_ERROR_INVALID_VALUE);
  if (pool.shared_fd < 0) {
    const Device& device = *device_at(pool.device);
    PoolDescription d;
    pool.unique = d.unique = platform()->box->unique_id();
    d.heap.pid = uint32_t(getpid());
    d.heap.start_time = process_start_time(d.heap.pid);
    d.heap.fd = device.heap->fd();
    d.heap.box_index = device.box_index;
    pool.shared_fd = memfd_create("simgpu-pool", MFD_CLOEXEC);
    SIMGPU_REQUIRE(pool.shared_fd >= 0 && pwrite(pool.shared_fd, &d, sizeof d, 0) == ssize_t(sizeof d),
                   CUDA_ERROR_OUT_OF_MEMORY);
  }
  fd = fcntl(pool.shared_fd, F_DUPFD_CLOEXEC, 0);
  return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pool_import(int fd, std::shared_ptr<MemoryPool>& out) {
  PoolDescription d;
  SIMGPU_REQUIRE(pread(fd, &d, sizeof d, 0) == ssize_t(sizeof d) && d.magic == kPoolMagic,
                 CUDA_ERROR_INVALID_VALUE);
  const int ordinal = ordinal_of_box(d.heap.box_index);
  SIMGPU_REQUIRE(ordinal >= 0, CUDA_ERROR_INVALID_VALUE);
  const int heap = open_remote(d.heap.pid, d.heap.start_time, d.heap.fd);
  SIMGPU_REQUIRE(heap >= 0, CUDA_ERROR_INVALID_VALUE);
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = ordinal;
  out = make_pool(props, ordinal);
  out->imported = true;
  out->unique = d.unique;
  out->shared_fd = heap;
  return CUDA_SUCCESS;
}

CUresult pool_export_pointer(CUdeviceptr pointer, CUmemPoolPtrExportData& out) {
  const AllocationRef a = live_at(pointer);
  SIMGPU_REQUIRE(a && a->base == pointer, CUDA_ERROR_INVALID_VALUE);
  const auto pool = pool_of(*a);
  SIMGPU_REQUIRE(pool && !pool->imported && pool->unique, CUDA_ERROR_INVALID_VALUE);
  const PointerDescription d = {kPoolMagic, pool->unique, pointer - device_at(pool->device)->heap->window(),
                                a->size};
  out = {};
  memcpy(&out, &d, sizeof d);
  return CUDA_SUCCESS;
}

CUresult pool_import_pointer(const std::shared_ptr<MemoryPool>& pool, const CUmemPoolPtrExportData& data,
                             CUdeviceptr& out) {
  PointerDescription d;
  memcpy(&d, &data, sizeof d);
  SIMGPU_REQUIRE(pool->imported && d.magic == kPoolMagic && d.unique == pool->unique && d.bytes,
                 CUDA_ERROR_INVALID_VALUE);
  const uint64_t start = d.offset / 4096 * 4096, skip = d.offset - start;
  const auto range = map_range(pool->shared_fd, start, round_up(skip + d.bytes, 4096));
  SIMGPU_REQUIRE(range, CUDA_ERROR_OUT_OF_MEMORY);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = range->address + skip;
  allocation->size = d.bytes;
  allocation->kind = MemoryKind::pool;
  allocation->device = pool->device;
  allocation->host = range->alias + skip;
  allocation->rights = pool->rights;
  allocation->pool = pool.get();
  allocation->backing = range;
  MemoryMap::get().insert(allocation);
  pool->live[allocation->base] = allocation;
  pool->used += round_up(d.bytes, kBlock);
  out = allocation->base;
  return CUDA_SUCCESS;
}
}  // namespace simgpu::driver
