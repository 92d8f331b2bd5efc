// Texture and surface objects, and how a fetch is computed: addressing, point and linear filtering as the
// CUDA programming guide's appendix on texture fetching defines them (weights in 9-bit fixed point with 8
// bits of fraction). Objects are immutable; the registry has its own lock, because executing kernels look
// handles up without the engine mutex.
#pragma once
#include <memory>
#include <vector>

#include "tools/simgpu/driver/core/array.h"
#include "tools/simgpu/exec/exec.h"

namespace simgpu::driver {

struct TexelGrid {  // one mipmap level, or linear memory
  uint64_t width = 1, height = 1, planes = 1, pitch = 0, slice = 0;
  uint64_t offset = 0;  // in the array's memory
};
struct TextureObject {
  bool surface = false;
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC texture = {};
  CUDA_RESOURCE_VIEW_DESC view = {};
  bool has_view = false;
  std::weak_ptr<Context> context;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1, element_bytes = 4;
  bool layered = false;
  unsigned dimensions = 2;
  std::vector<TexelGrid> levels;
  std::shared_ptr<ArrayMemory> memory;  // arrays; null: linear and pitched memory at `address`
  uint64_t address = 0, bytes = 0;
};
CUresult create_texture(Context& context, const CUDA_RESOURCE_DESC& resource,
                        const CUDA_TEXTURE_DESC& texture, const CUDA_RESOURCE_VIEW_DESC* view, uint64_t& out);
CUresult create_surface(Context& context, const CUDA_RESOURCE_DESC& resource, uint64_t& out);
std::shared_ptr<const TextureObject> find_texture(uint64_t handle, bool surface);
bool drop_texture(uint64_t handle, bool surface);
}  // namespace simgpu::driver
