#include "runtime/memory/spill.h"

#include <stdio.h>
#include <string.h>

#include "runtime/exec/driver.h"

namespace shunt::memory {

void SpillTable::insert(const SpilledBlock& block) {
  lock_.lock();
  const int n = count_.load(std::memory_order_relaxed);
  if (n < kMost) {
    blocks_[n] = block;
    count_.store(n + 1, std::memory_order_release);
    bytes_.fetch_add(block.bytes, std::memory_order_relaxed);
  }
  lock_.unlock();
}

std::optional<SpilledBlock> SpillTable::find(uint64_t address) const {
  if (empty()) return std::nullopt;
  SharedGuard guard(lock_);
  for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i) {
    if (address >= blocks_[i].base && address < blocks_[i].base + blocks_[i].bytes) return blocks_[i];
  }
  return std::nullopt;
}

std::optional<SpilledBlock> SpillTable::take(uint64_t base) {
  if (empty()) return std::nullopt;
  std::optional<SpilledBlock> found;
  lock_.lock();
  const int n = count_.load(std::memory_order_relaxed);
  for (int i = 0; i < n && !found; ++i) {
    if (blocks_[i].base != base) continue;
    found = blocks_[i];
    blocks_[i] = blocks_[n - 1];
    count_.store(n - 1, std::memory_order_release);
    bytes_.fetch_sub(found->bytes, std::memory_order_relaxed);
  }
  lock_.unlock();
  return found;
}

uint64_t host_available_bytes() {
  FILE* f = fopen("/proc/meminfo", "re");
  if (!f) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
  }
  fclose(f);
  return kib * 1024;
}

namespace {

bool within_limits(uint64_t bytes, int device, const SpillTable& table, const SpillLimits& limits) {
  const exec::Driver& d = exec::Driver::get();
  const uint64_t total = table.bytes() + bytes;
  if (limits.most_bytes && total > limits.most_bytes) return false;
  if (host_available_bytes() < bytes + limits.host_floor_bytes) return false;
  if (!limits.capped) return true;
  size_t device_bytes = 0;
  int coherent = 0;
  if (!d.device_total_mem || d.device_total_mem(&device_bytes, device) != CUDA_SUCCESS) return false;
  // A GPU that walks the host's page tables sits on a coherent link.
  if (d.device_get_attribute)
    d.device_get_attribute(&coherent, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                           device);
  return total <= device_bytes / (coherent ? 10 : 100);
}

std::optional<SpilledBlock> host_by_vmm(uint64_t bytes, int device) {
  const exec::Driver& d = exec::Driver::get();
  if (!d.mem_create || !d.mem_address_reserve || !d.mem_map || !d.mem_set_access ||
      !d.mem_get_allocation_granularity || !d.mem_release || !d.mem_unmap || !d.mem_address_free)
    return std::nullopt;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  int node = 0;
  if (d.device_get_attribute &&
      d.device_get_attribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS && node >= 0)
    prop.location.id = node;
  size_t grain = 0;
  if (d.mem_get_allocation_granularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
      grain == 0)
    return std::nullopt;
  SpilledBlock block;
  block.bytes = bytes;
  block.mapped_bytes = (bytes + grain - 1) / grain * grain;
  block.device = device;
  if (block.mapped_bytes < bytes) return std::nullopt;  // overflow
  CUdeviceptr base = 0;
  if (d.mem_address_reserve(&base, block.mapped_bytes, 0, 0, 0) != CUDA_SUCCESS) return std::nullopt;
  block.base = base;
  if (d.mem_create(&block.handle, block.mapped_bytes, &prop, 0) != CUDA_SUCCESS) {
    d.mem_address_free(base, block.mapped_bytes);
    return std::nullopt;
  }
  if (d.mem_map(base, block.mapped_bytes, 0, block.handle, 0) == CUDA_SUCCESS) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (d.mem_set_access(base, block.mapped_bytes, &access, 1) == CUDA_SUCCESS) return block;
    d.mem_unmap(base, block.mapped_bytes);
  }
  d.mem_release(block.handle);
  d.mem_address_free(base, block.mapped_bytes);
  return std::nullopt;
}

std::optional<SpilledBlock> managed(uint64_t bytes, int device) {
  const exec::Driver& d = exec::Driver::get();
  int concurrent = 0;
  if (!d.mem_alloc_managed || !d.mem_free || !d.mem_advise || !d.device_get_attribute ||
      d.device_get_attribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) !=
          CUDA_SUCCESS ||
      !concurrent)
    return std::nullopt;
  CUdeviceptr base = 0;
  if (d.mem_alloc_managed(&base, bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) return std::nullopt;
  CUmemLocation host{}, gpu{};
  host.type = CU_MEM_LOCATION_TYPE_HOST;
  gpu.type = CU_MEM_LOCATION_TYPE_DEVICE;
  gpu.id = device;
  // Preferring the GPU would switch off the driver's thrash handling under oversubscription.
  if (d.mem_advise(base, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host) != CUDA_SUCCESS ||
      d.mem_advise(base, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu) != CUDA_SUCCESS) {
    d.mem_free(base);
    return std::nullopt;
  }
  SpilledBlock block;
  block.base = base;
  block.bytes = bytes;
  block.device = device;
  return block;
}

}  // namespace

std::optional<SpilledBlock> spill(uint64_t bytes, int device, CUcontext context, const SpillTable& table,
                                  const SpillLimits& limits, Reason& reason) {
  if (bytes == 0 || device < 0) return reason = Reason::oom_not_spillable, std::nullopt;
  if (!within_limits(bytes, device, table, limits)) return reason = Reason::oom_spill_cap, std::nullopt;
  if (auto block = host_by_vmm(bytes, device)) {
    block->context = context;
    reason = Reason::oom_spilled_host;
    return block;
  }
  if (auto block = managed(bytes, device)) {
    block->context = context;
    reason = Reason::oom_spilled_managed;
    return block;
  }
  reason = Reason::oom_no_spill_form;
  return std::nullopt;
}

CUresult release(const SpilledBlock& block) {
  const exec::Driver& d = exec::Driver::get();
  if (block.mapped_bytes == 0) return d.mem_free(block.base);
  // The driver's own free waits for work that may use the memory; unmapping does not, so it is waited for
  // here.
  CUcontext before = nullptr;
  d.ctx_get_current(&before);
  if (before != block.context) d.ctx_set_current(block.context);
  const CUresult waited = d.ctx_synchronize();
  if (before != block.context) d.ctx_set_current(before);
  d.mem_unmap(block.base, block.mapped_bytes);
  d.mem_release(block.handle);
  d.mem_address_free(block.base, block.mapped_bytes);
  return waited;
}

}  // namespace shunt::memory
