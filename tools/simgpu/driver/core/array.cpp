#include "tools/simgpu/driver/core/array.h"

#include <algorithm>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/hooks.h"

namespace simgpu::driver {
namespace {
constexpr uint64_t kPitch = 32, kLevel = 512;
uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Limits of compute capability 7.5 and above, as the programming guide's table gives them.
CUresult check(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  SIMGPU_REQUIRE(channel_bytes(d.Format), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4, CUDA_ERROR_INVALID_VALUE);
  constexpr unsigned kKnown = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER |
                              CUDA_ARRAY3D_COLOR_ATTACHMENT;
  constexpr unsigned kNotHere = CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_SPARSE |
                                CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
  SIMGPU_REQUIRE(!(d.Flags & ~(kKnown | kNotHere)), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!(d.Flags & kNotHere), CUDA_ERROR_NOT_SUPPORTED);
  SIMGPU_REQUIRE(d.Width, CUDA_ERROR_INVALID_VALUE);
  if (d.Flags & CUDA_ARRAY3D_LAYERED) {
    SIMGPU_REQUIRE(d.Depth && d.Depth <= 2048 && d.Width <= 32768 && d.Height <= 32768,
                   CUDA_ERROR_INVALID_VALUE);
  } else if (d.Depth) {
    SIMGPU_REQUIRE(d.Height && d.Width <= 16384 && d.Height <= 16384 && d.Depth <= 16384,
                   CUDA_ERROR_INVALID_VALUE);
  } else {
    SIMGPU_REQUIRE(d.Width <= 131072 && d.Height <= 65536, CUDA_ERROR_INVALID_VALUE);
  }
  if (d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER)
    SIMGPU_REQUIRE(d.Height && !d.Depth && d.Width <= 32768 && d.Height <= 32768, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

std::shared_ptr<Array> shape(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  auto array = std::make_shared<Array>();
  array->desc = d;
  array->width = d.Width;
  array->height = std::max<uint64_t>(1, d.Height);
  array->planes = std::max<uint64_t>(1, d.Depth);
  array->element_bytes = channel_bytes(d.Format) * d.NumChannels;
  array->pitch = round_up(array->width * array->element_bytes, kPitch);
  array->slice = array->pitch * array->height;
  return array;
}

CUresult allocate(Context& context, uint64_t bytes, std::shared_ptr<ArrayMemory>& out) {
  SIMGPU_TRY(capture_check(CaptureQuestion::unsafe_call, &context));
  SIMGPU_TRY(fault_point("alloc_array", CUDA_ERROR_OUT_OF_MEMORY));
  DeviceHeap& heap = *context.device->heap;
  auto memory = std::make_shared<ArrayMemory>();
  memory->device = context.device->ordinal;
  memory->address = heap.allocate(bytes);
  if (!memory->address) {
    memory->alive = false;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memory->bytes = bytes;
  memory->host = heap.host(memory->address);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = memory->address;
  allocation->size = bytes;
  allocation->kind = MemoryKind::imported;  // opaque to programs: not theirs to free as memory
  allocation->device = memory->device;
  allocation->context_id = context.id;
  allocation->host = memory->host;
  MemoryMap::get().insert(allocation);
  out = std::move(memory);
  return CUDA_SUCCESS;
}

CUresult place_of(CUarray handle, ArrayPlace& out) {
  const Array* array = lookup<Array>(handle);
  SIMGPU_REQUIRE(array && array->memory->alive, CUDA_ERROR_INVALID_HANDLE);
  out.address = array->address();
  out.pitch = array->pitch;
  out.slice = array->slice;
  out.row_bytes = array->width * array->element_bytes;
  out.height = array->height;
  out.depth = array->planes;
  out.element_bytes = array->element_bytes;
  return CUDA_SUCCESS;
}
[[maybe_unused]] const bool installed = [] {
  g_array_place = place_of;
  return true;
}();

// Arrays of a context go with it: the context's extras hold this list.
struct Owned {
  std::vector<std::weak_ptr<ArrayMemory>> memories;
  std::vector<std::weak_ptr<Object>> objects;
  ~Owned() {
    for (const auto& weak : memories)
      if (auto memory = weak.lock()) memory->release();
    for (const auto& weak : objects)
      if (auto object = weak.lock()) drop_handle(*object);
  }
};
void own(Context& context, const std::shared_ptr<ArrayMemory>& memory,
         const std::shared_ptr<Object>& object) {
  auto& slot = context.extras["arrays"];
  if (!slot) slot = std::make_shared<Owned>();
  auto& owned = *static_cast<Owned*>(slot.get());
  std::erase_if(owned.memories, [](const auto& weak) { return weak.expired(); });
  std::erase_if(owned.objects, [](const auto& weak) { return weak.expired(); });
  owned.memories.push_back(memory);
  owned.objects.push_back(object);
}
}  // namespace

void ArrayMemory::release() {
  if (!alive.exchange(false)) return;
  MemoryMap::get().erase(address);
  device_at(device)->heap->release(address);
}
ArrayMemory::~ArrayMemory() { release(); }

unsigned channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;  // normalised, planar and compressed formats
  }
}

CUresult create_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, std::shared_ptr<Array>& out) {
  SIMGPU_TRY(check(desc));
  auto array = shape(desc);
  SIMGPU_TRY(allocate(context, array->slice * array->planes, array->memory));
  array->context = shared(&context);
  make_handle(array);
  own(context, array->memory, array);
  out = std::move(array);
  return CUDA_SUCCESS;
}

CUresult create_mipmapped(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, unsigned levels,
                          std::shared_ptr<MipmappedArray>& out) {
  SIMGPU_TRY(check(desc));
  SIMGPU_REQUIRE(levels, CUDA_ERROR_INVALID_VALUE);
  const bool layered = desc.Flags & CUDA_ARRAY3D_LAYERED;
  uint64_t largest = std::max<uint64_t>(desc.Width, desc.Height);
  if (!layered) largest = std::max<uint64_t>(largest, desc.Depth);
  unsigned most = 1;
  while (largest >>= 1) ++most;
  levels = std::min(levels, most);  // documented: clamped to 1 + floor(log2(largest))
  auto mipmap = std::make_shared<MipmappedArray>();
  mipmap->desc = desc;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < levels; ++i) {
    CUDA_ARRAY3D_DESCRIPTOR d = desc;
    auto smaller = [&](size_t n) { return n ? std::max<size_t>(1, n >> i) : 0; };
    d.Width = smaller(desc.Width);
    d.Height = smaller(desc.Height);
    if (!layered) d.Depth = smaller(desc.Depth);
    auto level = shape(d);
    level->offset = bytes;
    level->level = true;
    bytes += round_up(level->slice * level->planes, kLevel);
    mipmap->levels.push_back(std::move(level));
  }
  SIMGPU_TRY(allocate(context, bytes, mipmap->memory));
  mipmap->context = shared(&context);
  make_handle(mipmap);
  own(context, mipmap->memory, mipmap);
  for (const auto& level : mipmap->levels) {
    level->memory = mipmap->memory;
    level->context = mipmap->context;
    make_handle(level);
    own(context, mipmap->memory, level);
  }
  out = std::move(mipmap);
  return CUDA_SUCCESS;
}
}  // namespace simgpu::driver
