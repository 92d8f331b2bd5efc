// CUDA arrays and mipmapped arrays. Here an array is pitched device memory (element (x, y, z) at
// z * slice + y * pitch + x * element), so copies need nothing special; layers count as planes. Engine mutex
// held, except `host` and `alive`, which executing kernels read through textures.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/core/context.h"

namespace simgpu::driver {

// Owns the device memory; arrays and textures that use it keep it.
struct ArrayMemory {
  ~ArrayMemory();
  int device = 0;
  uint64_t address = 0, bytes = 0;
  uint8_t* host = nullptr;
  std::atomic<bool> alive{true};  // false once the program has destroyed it or its context has gone
  void release();
};

struct Array : Object {
  static constexpr Kind kKind = Kind::array;
  Array() : Object(Kind::array) {}
  CUDA_ARRAY3D_DESCRIPTOR desc = {};  // as given
  std::weak_ptr<Context> context;
  std::shared_ptr<ArrayMemory> memory;
  uint64_t offset = 0;                         // of a mipmap level in `memory`
  uint64_t width = 1, height = 1, planes = 1;  // at least 1; planes: depth or layers
  uint64_t pitch = 0, slice = 0;
  unsigned element_bytes = 0;
  bool level = false;  // belongs to a mipmapped array
  bool layered() const { return desc.Flags & CUDA_ARRAY3D_LAYERED; }
  uint64_t address() const { return memory->address + offset; }
  uint8_t* host() const { return memory->host + offset; }
};
struct MipmappedArray : Object {
  static constexpr Kind kKind = Kind::mipmapped_array;
  MipmappedArray() : Object(Kind::mipmapped_array) {}
  CUDA_ARRAY3D_DESCRIPTOR desc = {};
  std::weak_ptr<Context> context;
  std::shared_ptr<ArrayMemory> memory;
  std::vector<std::shared_ptr<Array>> levels;
};

unsigned channel_bytes(CUarray_format format);  // 0: not a format of arrays here
CUresult create_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, std::shared_ptr<Array>& out);
CUresult create_mipmapped(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, unsigned levels,
                          std::shared_ptr<MipmappedArray>& out);
}  // namespace simgpu::driver
