// Doors between API groups that live in different files. Each pointer is null until its group installs itself
// (a static initialiser in its api_*.cpp); callers answer NOT_SUPPORTED then. Engine mutex held.
#pragma once
#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/ops.h"

namespace simgpu::driver {
// Where a CUarray's bytes are: address of element (0,0,0), pitch, slice, bytes per row, owner.
struct ArrayPlace {
  uint64_t address = 0, pitch = 0, slice = 0, row_bytes = 0, height = 0, depth = 0;
  unsigned element_bytes = 0;
};
extern CUresult (*g_array_place)(CUarray array, ArrayPlace& out);
// cuMemFree of memory that came from a pool.
extern CUresult (*g_free_pool_memory)(Lock& lock, const AllocationRef& allocation);
// Memory pool of an allocation, for CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE.
extern CUmemoryPool (*g_pool_of)(const Allocation& allocation);
// Pool memory as the program has allocated it, whether or not the device has got that far; null: none there.
extern AllocationRef (*g_pool_memory_at)(uint64_t address);
// Host synchronisation has happened: pools may give memory back.
extern void (*g_after_wait)();
// Stream-ordered allocation and free in a capturing stream, and the free of memory that belongs to a graph
// (`handled`: it did, the result counts). Installed by the graph code.
extern CUresult (*g_capture_alloc)(const std::shared_ptr<Stream>& stream, CUDA_MEM_ALLOC_NODE_PARAMS& params);
extern CUresult (*g_capture_free)(const std::shared_ptr<Stream>& stream, CUdeviceptr address);
extern CUresult (*g_free_graph_memory)(Lock& lock, const std::shared_ptr<Stream>& stream, CUdeviceptr address,
                                       bool& handled);
// Textures and surfaces of a context, for kernels; null pointer when it has none.
extern const exec::TextureSource* (*g_texture_source)(Context& context);
// The allocation at an address as the program knows it.
inline AllocationRef known_allocation(uint64_t address) {
  if (g_pool_memory_at)
    if (AllocationRef a = g_pool_memory_at(address)) return a;
  return MemoryMap::get().find(address);
}
}  // namespace simgpu::driver
