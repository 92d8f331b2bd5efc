#include "tools/simgpu/driver/core/graph_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/memory.h"
#include "tools/simgpu/driver/core/ops.h"

namespace simgpu::driver {
namespace {
constexpr uint64_t kLargestWindow = uint64_t{1} << 40, kSmallestWindow = uint64_t{1} << 30;
constexpr uint64_t kPage = DeviceHeap::kPage;

struct DeviceCache {
  std::multimap<uint64_t, uint64_t> blocks;  // bytes -> heap address, free for the next launch
  uint64_t reserved = 0, reserved_high = 0, used_high = 0;
};
struct State {
  uint64_t base = 0, next = 0, window_bytes = 0;
  std::multimap<uint64_t, uint64_t> free_ranges;  // bytes -> address
  std::map<uint64_t, GraphAllocation*> all;       // by address
  std::set<GraphAllocationRef> live;
  std::map<int, DeviceCache> devices;
};
State& state() {
  static State* instance = [] {
    auto* s = new State;
    // Address space may be limited (ulimit, memory checkers): take what there is.
    for (uint64_t bytes = kLargestWindow; bytes >= kSmallestWindow && !s->base; bytes /= 4) {
      void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) continue;
      s->base = s->next = reinterpret_cast<uint64_t>(p);
      s->window_bytes = bytes;
    }
    return s;
  }();
  return *instance;
}
uint64_t paged(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
uint64_t used_now(int device) {
  uint64_t used = 0;
  for (const auto& [address, memory] : state().all) {
    if (memory->device == device && (memory->live || memory->in_flight)) used += memory->block_bytes;
  }
  return used;
}
void release_cached(int device) {
  DeviceCache& cache = state().devices[device];
  for (const auto& [bytes, block] : cache.blocks) {
    device_at(device)->heap->release(block);
    cache.reserved -= bytes;
  }
  cache.blocks.clear();
}
}  // namespace

GraphAllocation::GraphAllocation(int device, uint64_t address, uint64_t bytes)
    : device(device), address(address), bytes(bytes) {
  state().all[address] = this;
}
GraphAllocation::~GraphAllocation() {
  hide(*this);
  unback(*this);
  state().all.erase(address);
  state().free_ranges.emplace(paged(bytes), address);
}

GraphAllocationRef make_graph_allocation(int device, uint64_t bytes, std::vector<uint8_t> rights) {
  State& s = state();
  if (!s.base || bytes > s.window_bytes) return nullptr;
  const uint64_t range = paged(bytes);
  uint64_t address;
  if (auto place = s.free_ranges.find(range); place != s.free_ranges.end()) {
    address = place->second;
    s.free_ranges.erase(place);
  } else {
    if (range > s.base + s.window_bytes - s.next) return nullptr;
    address = s.next;
    s.next += range;
  }
  auto memory = std::make_shared<GraphAllocation>(device, address, bytes);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = address;
  allocation->size = bytes;
  allocation->kind = MemoryKind::pool;
  allocation->device = device;
  allocation->rights = std::move(rights);
  memory->allocation = std::move(allocation);
  return memory;
}

bool in_graph_window(uint64_t address) {
  const State& s = state();
  return s.base && address >= s.base && address < s.base + s.window_bytes;
}

GraphAllocationRef graph_allocation_at(uint64_t address) {
  if (!in_graph_window(address)) return nullptr;
  auto place = state().all.find(address);
  if (place == state().all.end()) return nullptr;
  return place->second->shared_from_this();
}

AllocationRef graph_memory_containing(uint64_t address) {
  if (!in_graph_window(address)) return nullptr;
  auto place = state().all.upper_bound(address);
  if (place == state().all.begin()) return nullptr;
  const GraphAllocation& memory = *std::prev(place)->second;
  return address - memory.address < memory.bytes ? memory.allocation : nullptr;
}

CUresult back(GraphAllocation& memory) {
  if (memory.block) return CUDA_SUCCESS;
  DeviceCache& cache = state().devices[memory.device];
  const uint64_t wanted = paged(memory.bytes);
  DeviceHeap& heap = *device_at(memory.device)->heap;
  if (auto place = cache.blocks.find(wanted); place != cache.blocks.end()) {
    memory.block = place->second;
    cache.blocks.erase(place);
  } else {
    memory.block = heap.allocate(wanted);
    if (!memory.block) {
      release_cached(memory.device);
      memory.block = heap.allocate(wanted);
    }
    SIMGPU_REQUIRE(memory.block, CUDA_ERROR_OUT_OF_MEMORY);
    cache.reserved += wanted;
    cache.reserved_high = std::max(cache.reserved_high, cache.reserved);
  }
  memory.block_bytes = wanted;
  memory.allocation->host = heap.host(memory.block);
  memory.allocation->id = MemoryMap::get().next_id();
  return CUDA_SUCCESS;
}

void unback(GraphAllocation& memory) {
  if (!memory.block) return;
  state().devices[memory.device].blocks.emplace(memory.block_bytes, memory.block);
  memory.block = memory.block_bytes = 0;
  memory.allocation->host = nullptr;
}

void show(const GraphAllocation& memory) {
  if (memory.block && !MemoryMap::get().at(memory.address)) MemoryMap::get().insert(memory.allocation);
}
void hide(const GraphAllocation& memory) {
  if (MemoryMap::get().at(memory.address)) MemoryMap::get().erase(memory.address);
}

void set_live(const GraphAllocationRef& memory, bool live) {
  memory->live = live;
  if (live)
    state().live.insert(memory);
  else
    state().live.erase(memory);
}

void freed(GraphAllocation& memory) {
  if (!memory.live && !memory.in_flight) unback(memory);
}

CUresult free_graph_memory(Lock& lock, const GraphAllocationRef& memory,
                           const std::shared_ptr<Stream>& stream) {
  SIMGPU_REQUIRE(memory->live, CUDA_ERROR_INVALID_VALUE);
  if (stream) {
    OpRef op;
    SIMGPU_TRY(submit(lock, stream,
                      std::make_shared<ActionBody>(
                          OpKind::free, "free", [memory](Op&) { hide(*memory); }, 100),
                      &op));
    set_live(memory, false);
    ++memory->in_flight;
    op->on_completed.push_back([memory](Op&) {
      --memory->in_flight;
      freed(*memory);
    });
    return CUDA_SUCCESS;
  }
  for (Device* device : platform()->devices) {
    if (device->primary && device->ordinal == memory->device)
      SIMGPU_TRY(wait_for(lock, *device->primary, context_targets(*device->primary)));
  }
  Context* current = current_context();
  if (current) SIMGPU_TRY(wait_for(lock, *current, context_targets(*current)));
  SIMGPU_REQUIRE(memory->live, CUDA_ERROR_INVALID_VALUE);
  set_live(memory, false);
  hide(*memory);
  freed(*memory);
  return CUDA_SUCCESS;
}

void drop_graph_memory(int device) {
  const std::set<GraphAllocationRef> live = state().live;
  for (const GraphAllocationRef& memory : live) {
    if (memory->device != device) continue;
    set_live(memory, false);
    hide(*memory);
    freed(*memory);
  }
  graph_memory_trim(device);
}

void note_graph_memory_use(int device) {
  DeviceCache& cache = state().devices[device];
  cache.used_high = std::max(cache.used_high, used_now(device));
}

CUresult graph_memory_trim(int device) {
  for (const auto& [address, memory] : state().all) {
    if (memory->device == device && !memory->live && !memory->in_flight) unback(*memory);
  }
  release_cached(device);
  return CUDA_SUCCESS;
}

CUresult graph_memory_attribute(int device, CUgraphMem_attribute attribute, uint64_t& value) {
  DeviceCache& cache = state().devices[device];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      value = used_now(device);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      value = cache.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      value = cache.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      value = cache.reserved_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult reset_graph_memory_attribute(int device, CUgraphMem_attribute attribute) {
  DeviceCache& cache = state().devices[device];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      cache.used_high = used_now(device);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      cache.reserved_high = cache.reserved;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
}  // namespace simgpu::driver
