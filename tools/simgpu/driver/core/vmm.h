// Virtual memory management: address reservations, physical memory, mappings and their access rights.
// Physical memory is one shared mapping of its own (with a file only when it may be exported); each map call
// makes views of it: one in the reservation's alias, where the device's work reads and writes, and one at the
// address itself when the host has access. Adjacent mappings of a reservation have adjacent aliases, so work
// may cross them. Engine mutex held, except for in_reservation(). Leaked; nothing happens at exit.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/shared_charge.h"

namespace simgpu::driver {

constexpr uint64_t kVmmGranularity = uint64_t{2} << 20;

// The memory itself; handles of one process (created, imported again) share it.
struct PhysicalMemory {
  uint64_t size = 0;
  uint8_t* bytes = nullptr;  // the first view
  int device = -1;           // visible ordinal; -1: host memory
  int box_index = -1;
  std::shared_ptr<SharedCharge> charge;  // exportable memory
  ~PhysicalMemory();
};

struct MemoryHandle : Object {
  static constexpr Kind kKind = Kind::physical_memory;
  MemoryHandle() : Object(Kind::physical_memory) {}
  CUmemAllocationProp prop = {};
  std::shared_ptr<PhysicalMemory> memory;
  uint32_t references = 1;  // of the program: create, import, retain
  uint32_t mappings = 0;
};

CUresult check_properties(const CUmemAllocationProp& prop);
CUresult vmm_create(const CUmemAllocationProp& prop, uint64_t size, CUmemGenericAllocationHandle& out);
// Null unless the program holds a reference.
MemoryHandle* vmm_handle(CUmemGenericAllocationHandle handle);
void vmm_release(MemoryHandle& handle);
CUresult vmm_export(const MemoryHandle& handle, int& fd);
CUresult vmm_import(int fd, CUmemGenericAllocationHandle& out);

CUresult vmm_reserve(uint64_t size, uint64_t alignment, uint64_t hint, CUdeviceptr& out);
CUresult vmm_free_range(CUdeviceptr address, uint64_t size);
CUresult vmm_map(CUdeviceptr address, uint64_t size, MemoryHandle& handle);
// Both wait for the work in flight where it could lose its memory or rights.
CUresult vmm_unmap(Lock& lock, CUdeviceptr address, uint64_t size);
CUresult vmm_set_access(Lock& lock, CUdeviceptr address, uint64_t size, const CUmemAccessDesc* descriptions,
                        size_t count);
CUresult vmm_get_access(CUdeviceptr address, const CUmemLocation& location, unsigned long long& flags);
// The handle behind a mapped address, with one more reference.
MemoryHandle* vmm_retain(uint64_t address);

// For the race detector, which must know bytes that are mapped twice as one: addresses of mapped memory
// become those of the memory's first view, and back (any mapping that shows the byte; the address itself
// without one).
void vmm_to_first_view(std::vector<exec::Access>& accesses);
uint64_t vmm_mapped_address(uint64_t first_view);

// Whether the address lies in a reservation, and in which. Any thread.
bool in_reservation(uint64_t address, uint64_t* base = nullptr, uint64_t* size = nullptr);

}  // namespace simgpu::driver
