#include "tools/simgpu/driver/core/vmm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/memory.h"
#include "tools/simgpu/driver/core/race.h"
#include "tools/simgpu/driver/core/shared_memory.h"

namespace simgpu::driver {
namespace {
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMagic = 0x6d6d7675'70676d73;  // "smgpuvmm"
// Reservations start here where nothing asks for another place, so that addresses are the same in every run;
// their aliases lie a fixed distance above, so that neighbours have neighbouring aliases.
constexpr uint64_t kWindow = uint64_t{0x50} << 40, kWindowEnd = uint64_t{0x60} << 40;
constexpr uint64_t kAliasDistance = uint64_t{0x10} << 40;

struct Mapping {
  uint64_t size = 0;
  std::shared_ptr<MemoryHandle> handle;
  AllocationRef allocation;
  uint8_t host_rights = 0;
};
struct Reservation {
  uint64_t size = 0;
  uint8_t* alias = nullptr;
  std::map<uint64_t, Mapping> mappings;
};
struct State {
  std::shared_mutex mutex;  // of the map's shape; its writers also hold the engine mutex
  std::map<uint64_t, Reservation> reservations;
  std::map<uint64_t, std::weak_ptr<PhysicalMemory>> shared;  // exportable memory by its number in the box
};
State& state() {
  static State* instance = new State;
  return *instance;
}

std::map<uint64_t, Reservation>::iterator reservation_at(uint64_t address) {
  auto& all = state().reservations;
  auto it = all.upper_bound(address);
  if (it == all.begin()) return all.end();
  --it;
  return address < it->first + it->second.size ? it : all.end();
}
Mapping* mapping_at(uint64_t address) {
  auto reservation = reservation_at(address);
  if (reservation == state().reservations.end()) return nullptr;
  auto& mappings = reservation->second.mappings;
  auto it = mappings.upper_bound(address);
  if (it == mappings.begin()) return nullptr;
  --it;
  return address < it->first + it->second.size ? &it->second : nullptr;
}
// Whole mappings that make up [address, address + size) without a gap; false when there is no such run.
bool whole_mappings(uint64_t address, uint64_t size, std::vector<Mapping*>& out) {
  if (!size) return false;
  for (uint64_t at = address; at != address + size;) {
    Mapping* m = at < address + size ? mapping_at(at) : nullptr;
    if (!m || m->allocation->base != at) return false;
    out.push_back(m);
    at += m->size;
  }
  return true;
}

void* place(uint64_t address, uint64_t size, int protection, int fixed) {
  return mmap(reinterpret_cast<void*>(address), size, protection,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
}
// Shared memory of its own, with a file when others may get it.
uint8_t* shared_bytes(uint64_t size, int fd) {
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                 (fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS) | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) return nullptr;
  madvise(p, size, MADV_DONTDUMP);
  return static_cast<uint8_t*>(p);
}
// Another view of shared memory, in place of what is at `target`.
bool view(uint8_t* source, uint64_t size, uint64_t target) {
  return mremap(source, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(target)) !=
         MAP_FAILED;
}

bool poison_new_memory() {
  const char* text = getenv("SIMGPU_INIT");
  return text && !strcmp(text, "poison");
}

int numa_nodes() {
  uint32_t most = 0;
  for (const DeviceSpec& spec : platform()->box->spec().devices) most = std::max(most, spec.numa_node);
  return int(most) + 1;
}

CUmemGenericAllocationHandle publish(const CUmemAllocationProp& prop,
                                     std::shared_ptr<PhysicalMemory> memory) {
  auto handle = std::make_shared<MemoryHandle>();
  handle->prop = prop;
  handle->memory = std::move(memory);
  return make_handle(handle);
}
void drop_if_unused(MemoryHandle& handle) {
  if (!handle.references && !handle.mappings && handle.handle) drop_handle(handle);
}

// All work submitted so far: any of it may use the mapping.
CUresult wait_for_all(Lock& lock) {
  std::vector<OpRef> targets;
  for (Device* device : platform()->devices)
    if (device->primary)
      for (OpRef& op : Engine::get().unfinished(*device->primary)) targets.push_back(std::move(op));
  if (Context* current = current_context(); current && !current->primary)
    for (OpRef& op : Engine::get().unfinished(*current)) targets.push_back(std::move(op));
  if (!targets.empty()) Engine::get().wait(lock, targets);
  return CUDA_SUCCESS;
}

int host_protection(uint8_t rights) {
  return rights == 3 ? PROT_READ | PROT_WRITE : rights == 1 ? PROT_READ : PROT_NONE;
}
}  // namespace

PhysicalMemory::~PhysicalMemory() {
  if (bytes) munmap(bytes, size);
  if (!charge) release_box_memory(box_index, size);
}

CUresult check_properties(const CUmemAllocationProp& prop) {
  SIMGPU_REQUIRE(prop.type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!prop.win32HandleMetaData, CUDA_ERROR_INVALID_VALUE);
  const unsigned types = unsigned(prop.requestedHandleTypes);
  constexpr unsigned kKnown = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                              CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;
  SIMGPU_REQUIRE(!(types & ~kKnown), CUDA_ERROR_INVALID_VALUE);
  switch (prop.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      SIMGPU_REQUIRE(device_at(prop.location.id), CUDA_ERROR_INVALID_DEVICE);
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
      SIMGPU_REQUIRE(!types, CUDA_ERROR_INVALID_VALUE);
      break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      SIMGPU_REQUIRE(prop.location.id >= 0 && prop.location.id < numa_nodes(), CUDA_ERROR_INVALID_VALUE);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  // What the attributes of the device deny.
  SIMGPU_REQUIRE(!(types & ~unsigned(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)), CUDA_ERROR_NOT_SUPPORTED);
  SIMGPU_REQUIRE(!prop.allocFlags.gpuDirectRDMACapable, CUDA_ERROR_NOT_SUPPORTED);
  SIMGPU_REQUIRE(prop.allocFlags.compressionType <= CU_MEM_ALLOCATION_COMP_GENERIC, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!(prop.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL), CUDA_ERROR_NOT_SUPPORTED);
  return CUDA_SUCCESS;
}

CUresult vmm_create(const CUmemAllocationProp& prop, uint64_t size, CUmemGenericAllocationHandle& out) {
  SIMGPU_TRY(check_properties(prop));
  SIMGPU_REQUIRE(size && size % kVmmGranularity == 0, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("mem_create", CUDA_ERROR_OUT_OF_MEMORY));
  SIMGPU_REQUIRE(size <= uint64_t{1} << 46, CUDA_ERROR_OUT_OF_MEMORY);
  const bool on_device = prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const int box_index = on_device ? device_at(prop.location.id)->box_index : -1;
  SIMGPU_REQUIRE(reserve_box_memory(box_index, size), CUDA_ERROR_OUT_OF_MEMORY);
  auto memory = std::make_shared<PhysicalMemory>();
  memory->size = size;
  memory->box_index = box_index;  // from here on the destructor gives the bytes back
  memory->device = on_device ? prop.location.id : -1;
  int fd = -1;
  if (prop.requestedHandleTypes) {
    fd = memfd_create("simgpu-memory", MFD_CLOEXEC);
    SIMGPU_REQUIRE(fd >= 0, CUDA_ERROR_OUT_OF_MEMORY);
    ControlPage page;
    page.magic = kMagic;
    page.id = platform()->box->unique_id();
    page.bytes = size;
    page.box_index = box_index;
    page.kind = uint64_t(prop.location.type);
    page.details[0] = uint64_t(prop.location.id);
    page.details[1] = uint64_t(prop.requestedHandleTypes);
    if (ftruncate(fd, off_t(size + kControlBytes)) == 0) memory->charge = SharedCharge::make(fd, size, page);
    if (memory->charge) {
      memory->bytes = shared_bytes(size, fd);
      state().shared[page.id] = memory;
    }
    close(fd);
  } else {
    memory->bytes = shared_bytes(size, -1);
  }
  SIMGPU_REQUIRE(memory->bytes, CUDA_ERROR_OUT_OF_MEMORY);
  if (poison_new_memory()) memset(memory->bytes, 0xCD, size);
  CUmemAllocationProp kept = prop;
  kept.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;  // a hint; no device here compresses
  if (prop.location.type == CU_MEM_LOCATION_TYPE_HOST) kept.location.id = 0;
  out = publish(kept, std::move(memory));
  return CUDA_SUCCESS;
}

MemoryHandle* vmm_handle(CUmemGenericAllocationHandle handle) {
  auto* found = static_cast<MemoryHandle*>(find_handle(handle, Kind::physical_memory));
  return found && found->references ? found : nullptr;
}

void vmm_release(MemoryHandle& handle) {
  --handle.references;
  drop_if_unused(handle);
}

CUresult vmm_export(const MemoryHandle& handle, int& fd) {
  SIMGPU_REQUIRE(handle.memory->charge, CUDA_ERROR_INVALID_VALUE);
  fd = handle.memory->charge->open_for_others();
  return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vmm_import(int fd, CUmemGenericAllocationHandle& out) {
  const off_t end = lseek(fd, 0, SEEK_END);
  SIMGPU_REQUIRE(end > off_t(kControlBytes), CUDA_ERROR_INVALID_VALUE);
  const uint64_t size = uint64_t(end) - kControlBytes;
  const auto charge = SharedCharge::join(fd, size, kMagic);
  SIMGPU_REQUIRE(charge && charge->page().bytes == size, CUDA_ERROR_INVALID_VALUE);
  const ControlPage& page = charge->page();
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CUmemAllocationHandleType(page.details[1]);
  prop.location.type = CUmemLocationType(page.kind);
  prop.location.id = int(page.details[0]);
  int device = -1;
  if (page.box_index >= 0) {
    device = ordinal_of_box(page.box_index);
    SIMGPU_REQUIRE(device >= 0, CUDA_ERROR_NOT_SUPPORTED);  // hidden from this process
    prop.location.id = device;
  }
  auto memory = state().shared[page.id].lock();
  if (!memory) {
    memory = std::make_shared<PhysicalMemory>();
    memory->size = size;
    memory->charge = charge;
    memory->device = device;
    memory->box_index = page.box_index;
    memory->bytes = shared_bytes(size, fd);
    SIMGPU_REQUIRE(memory->bytes, CUDA_ERROR_OUT_OF_MEMORY);
    state().shared[page.id] = memory;
  }
  out = publish(prop, std::move(memory));
  return CUDA_SUCCESS;
}

CUresult vmm_reserve(uint64_t size, uint64_t alignment, uint64_t hint, CUdeviceptr& out) {
  SIMGPU_REQUIRE(size && size % kPage == 0 && hint % kPage == 0 && !(alignment & (alignment - 1)),
                 CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("mem_reserve", CUDA_ERROR_OUT_OF_MEMORY));
  SIMGPU_REQUIRE(size < kWindowEnd - kWindow, CUDA_ERROR_OUT_OF_MEMORY);
  alignment = std::max(alignment, kVmmGranularity);
  auto aligned = [&](uint64_t address) { return (address + alignment - 1) / alignment * alignment; };
  uint64_t base = 0;
  // A hint is followed where its place is free and fits the alignment.
  if (hint && hint % alignment == 0) {
    void* p = place(hint, size, PROT_NONE, MAP_FIXED_NOREPLACE);
    if (p != MAP_FAILED) base = hint;
  }
  // The first gap of the window; what somebody else has mapped there is jumped over.
  for (uint64_t at = aligned(kWindow); !base && at < kWindowEnd && size <= kWindowEnd - at;) {
    auto next = state().reservations.lower_bound(at);
    if (next != state().reservations.end() && next->first < at + size) {
      at = aligned(next->first + next->second.size);
      continue;
    }
    if (auto inside = reservation_at(at); inside != state().reservations.end()) {
      at = aligned(inside->first + inside->second.size);
      continue;
    }
    if (place(at, size, PROT_NONE, MAP_FIXED_NOREPLACE) != MAP_FAILED)
      base = at;
    else
      at = aligned(at + size);
  }
  SIMGPU_REQUIRE(base, CUDA_ERROR_OUT_OF_MEMORY);
  const bool in_window = base >= kWindow && base + size <= kWindowEnd;
  void* alias = MAP_FAILED;
  if (in_window) alias = place(base + kAliasDistance, size, PROT_NONE, MAP_FIXED_NOREPLACE);
  if (alias == MAP_FAILED) alias = place(0, size, PROT_NONE, 0);
  if (alias == MAP_FAILED) {
    munmap(reinterpret_cast<void*>(base), size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Reservation reservation;
  reservation.size = size;
  reservation.alias = static_cast<uint8_t*>(alias);
  std::unique_lock<std::shared_mutex> shape(state().mutex);
  state().reservations.emplace(base, std::move(reservation));
  out = base;
  return CUDA_SUCCESS;
}

CUresult vmm_free_range(CUdeviceptr address, uint64_t size) {
  auto it = state().reservations.find(address);
  SIMGPU_REQUIRE(it != state().reservations.end() && it->second.size == size && it->second.mappings.empty(),
                 CUDA_ERROR_INVALID_VALUE);
  munmap(reinterpret_cast<void*>(address), size);
  munmap(it->second.alias, size);
  std::unique_lock<std::shared_mutex> shape(state().mutex);
  state().reservations.erase(it);
  return CUDA_SUCCESS;
}

CUresult vmm_map(CUdeviceptr address, uint64_t size, MemoryHandle& handle) {
  SIMGPU_REQUIRE(
      size && address % kVmmGranularity == 0 && size % kVmmGranularity == 0 && size <= handle.memory->size,
      CUDA_ERROR_INVALID_VALUE);
  auto it = reservation_at(address);
  SIMGPU_REQUIRE(it != state().reservations.end() && size <= it->first + it->second.size - address,
                 CUDA_ERROR_INVALID_VALUE);
  Reservation& reservation = it->second;
  SIMGPU_REQUIRE(!MemoryMap::get().overlaps(address, size), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("mem_map", CUDA_ERROR_OUT_OF_MEMORY));
  uint8_t* alias = reservation.alias + (address - it->first);
  SIMGPU_REQUIRE(view(handle.memory->bytes, size, reinterpret_cast<uint64_t>(alias)),
                 CUDA_ERROR_OUT_OF_MEMORY);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = address;
  allocation->size = size;
  allocation->kind = MemoryKind::mapped;
  allocation->device = handle.memory->device;
  allocation->host = alias;
  allocation->flags = unsigned(handle.prop.requestedHandleTypes);
  allocation->rights.assign(platform()->devices.size(), 0);
  allocation->range_base = it->first;
  allocation->range_size = reservation.size;
  allocation->backing = handle.memory;
  MemoryMap::get().insert(allocation);
  ++handle.mappings;
  reservation.mappings[address] = {size, shared(&handle), allocation, 0};
  return CUDA_SUCCESS;
}

CUresult vmm_unmap(Lock& lock, CUdeviceptr address, uint64_t size) {
  std::vector<Mapping*> mappings;
  SIMGPU_REQUIRE(whole_mappings(address, size, mappings), CUDA_ERROR_INVALID_VALUE);
  // Work in flight keeps its memory until it is through, but the program may not count on that: to the race
  // detector the wait is none.
  const std::vector<uint32_t> known = races_watched() ? race_host_clock() : std::vector<uint32_t>();
  SIMGPU_TRY(wait_for_all(lock));
  mappings.clear();  // another thread may have been at it meanwhile
  SIMGPU_REQUIRE(whole_mappings(address, size, mappings), CUDA_ERROR_INVALID_VALUE);
  auto reservation = reservation_at(address);
  for (Mapping* m : mappings) {
    const AllocationRef allocation = m->allocation;
    if (races_watched()) {
      const uint64_t first = reinterpret_cast<uint64_t>(m->handle->memory->bytes);
      race_unmapped(first, m->size, known);
      if (m->handle->mappings == 1) race_forget(first, m->size);
    }
    MemoryMap::get().erase(allocation->base);
    // Readable emptiness: a kernel given up in a deadlock may still be spinning on it.
    place(reinterpret_cast<uint64_t>(allocation->host), allocation->size, PROT_READ | PROT_WRITE, MAP_FIXED);
    if (m->host_rights) place(allocation->base, allocation->size, PROT_NONE, MAP_FIXED);
    const std::shared_ptr<MemoryHandle> handle = m->handle;
    reservation->second.mappings.erase(allocation->base);
    allocation->backing.reset();
    --handle->mappings;
    drop_if_unused(*handle);
  }
  return CUDA_SUCCESS;
}

CUresult vmm_set_access(Lock& lock, CUdeviceptr address, uint64_t size, const CUmemAccessDesc* descriptions,
                        size_t count) {
  std::vector<Mapping*> mappings;
  SIMGPU_REQUIRE(whole_mappings(address, size, mappings), CUDA_ERROR_INVALID_VALUE);
  bool fewer = false;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& d = descriptions[i];
    SIMGPU_REQUIRE(d.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || d.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                       d.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                   CUDA_ERROR_INVALID_VALUE);
    for (const Mapping* m : mappings) {
      const int owner = m->allocation->device;
      if (d.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        const Device* device = device_at(d.location.id);
        SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
        SIMGPU_REQUIRE(owner < 0 || owner == device->ordinal || device->can_access_peer(*device_at(owner)),
                       CUDA_ERROR_INVALID_DEVICE);
        fewer |= m->allocation->rights[size_t(device->ordinal)] & ~uint8_t(d.flags);
      } else {
        SIMGPU_REQUIRE(
            d.location.type == CU_MEM_LOCATION_TYPE_HOST || d.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA,
            CUDA_ERROR_INVALID_VALUE);
        SIMGPU_REQUIRE(owner < 0, CUDA_ERROR_INVALID_VALUE);  // the host cannot reach device memory
      }
    }
  }
  SIMGPU_TRY(fault_point("mem_access", CUDA_ERROR_OUT_OF_MEMORY));
  if (fewer) {
    SIMGPU_TRY(wait_for_all(lock));
    mappings.clear();
    SIMGPU_REQUIRE(whole_mappings(address, size, mappings), CUDA_ERROR_INVALID_VALUE);
  }
  for (Mapping* m : mappings) {
    for (size_t i = 0; i < count; ++i) {
      const CUmemAccessDesc& d = descriptions[i];
      if (d.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        m->allocation->rights[size_t(d.location.id)] = uint8_t(d.flags);
        continue;
      }
      const uint64_t base = m->allocation->base;
      if (d.flags && !m->host_rights)
        SIMGPU_REQUIRE(view(m->handle->memory->bytes, m->size, base), CUDA_ERROR_OUT_OF_MEMORY);
      m->host_rights = uint8_t(d.flags);
      mprotect(reinterpret_cast<void*>(base), m->size, host_protection(m->host_rights));
    }
  }
  return CUDA_SUCCESS;
}

CUresult vmm_get_access(CUdeviceptr address, const CUmemLocation& location, unsigned long long& flags) {
  const Mapping* m = mapping_at(address);
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    SIMGPU_REQUIRE(device_at(location.id), CUDA_ERROR_INVALID_DEVICE);
    SIMGPU_REQUIRE(m, CUDA_ERROR_INVALID_VALUE);
    flags = m->allocation->rights[size_t(location.id)];
    return CUDA_SUCCESS;
  }
  SIMGPU_REQUIRE(
      m && (location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA),
      CUDA_ERROR_INVALID_VALUE);
  flags = m->host_rights;
  return CUDA_SUCCESS;
}

MemoryHandle* vmm_retain(uint64_t address) {
  Mapping* m = mapping_at(address);
  if (!m) return nullptr;
  ++m->handle->references;
  return m->handle.get();
}

void vmm_to_first_view(std::vector<exec::Access>& accesses) {
  if (state().reservations.empty()) return;
  std::vector<exec::Access> out;
  out.reserve(accesses.size());
  for (exec::Access access : accesses) {
    while (access.base < access.end) {
      const Mapping* m = mapping_at(access.base);
      if (!m) break;
      const uint64_t end = std::min(access.end, m->allocation->end());
      const uint64_t to = reinterpret_cast<uint64_t>(m->handle->memory->bytes) - m->allocation->base;
      exec::Access part = access;
      part.base += to;
      part.end = end + to;
      out.push_back(part);
      access.base = end;
    }
    if (access.base < access.end) out.push_back(access);
  }
  accesses.swap(out);
}

uint64_t vmm_mapped_address(uint64_t first_view) {
  for (const auto& [base, reservation] : state().reservations) {
    for (const auto& [address, m] : reservation.mappings) {
      const uint64_t start = reinterpret_cast<uint64_t>(m.handle->memory->bytes);
      if (first_view >= start && first_view < start + m.size) return address + (first_view - start);
    }
  }
  return first_view;
}

bool in_reservation(uint64_t address, uint64_t* base, uint64_t* size) {
  std::shared_lock<std::shared_mutex> shape(state().mutex);
  auto it = reservation_at(address);
  if (it == state().reservations.end()) return false;
  if (base) *base = it->first;
  if (size) *size = it->second.size;
  return true;
}
}  // namespace simgpu::driver
