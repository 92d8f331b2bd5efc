#include "tools/simgpu/driver/core/hooks.h"

namespace simgpu::driver {
AllocationRef (*g_pool_memory_at)(uint64_t) = nullptr;
void (*g_after_wait)() = nullptr;
CUresult (*g_capture_alloc)(const std::shared_ptr<Stream>&, CUDA_MEM_ALLOC_NODE_PARAMS&) = nullptr;
CUresult (*g_capture_free)(const std::shared_ptr<Stream>&, CUdeviceptr) = nullptr;
CUresult (*g_free_graph_memory)(Lock&, const std::shared_ptr<Stream>&, CUdeviceptr, bool&) = nullptr;
}  // namespace simgpu::driver
