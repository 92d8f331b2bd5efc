#include "tools/simgpu/driver/core/texture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/hooks.h"

namespace simgpu::driver {
namespace {
struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<const TextureObject>> objects;
  uint64_t next = 1;
};
Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}
uint64_t enter(std::shared_ptr<TextureObject> object) {
  Registry& r = registry();
  std::unique_lock<std::shared_mutex> lock(r.mutex);
  const uint64_t handle = r.next++;  // never used twice: a destroyed object's handle stays invalid
  r.objects[handle] = std::move(object);
  return handle;
}

TexelGrid grid_of(const Array& a) { return {a.width, a.height, a.planes, a.pitch, a.slice, a.offset}; }
void take_array(const Array& a, TextureObject& out) {
  out.format = a.desc.Format;
  out.channels = a.desc.NumChannels;
  out.element_bytes = a.element_bytes;
  out.layered = a.layered();
  out.dimensions = a.desc.Depth && !a.layered() ? 3 : a.desc.Height ? 2 : 1;
  out.memory = a.memory;
}

CUresult take_linear(CUdeviceptr address, CUarray_format format, unsigned channels, uint64_t bytes,
                     TextureObject& out) {
  SIMGPU_REQUIRE(channel_bytes(format) && (channels == 1 || channels == 2 || channels == 4),
                 CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(address % 512 == 0 && bytes, CUDA_ERROR_INVALID_VALUE);  // the texture alignment attribute
  const AllocationRef a = known_allocation(address);
  SIMGPU_REQUIRE(a && bytes <= a->end() - address, CUDA_ERROR_INVALID_VALUE);
  out.format = format;
  out.channels = channels;
  out.element_bytes = channel_bytes(format) * channels;
  out.address = address;
  out.bytes = bytes;
  return CUDA_SUCCESS;
}

CUresult take_resource(const CUDA_RESOURCE_DESC& r, TextureObject& out) {
  SIMGPU_REQUIRE(r.flags == 0, CUDA_ERROR_INVALID_VALUE);
  out.resource = r;
  switch (r.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      const Array* array = lookup<Array>(r.res.array.hArray);
      SIMGPU_REQUIRE(array && array->memory->alive, CUDA_ERROR_INVALID_HANDLE);
      take_array(*array, out);
      out.levels = {grid_of(*array)};
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const MipmappedArray* mipmap = lookup<MipmappedArray>(r.res.mipmap.hMipmappedArray);
      SIMGPU_REQUIRE(mipmap, CUDA_ERROR_INVALID_HANDLE);
      take_array(*mipmap->levels[0], out);
      for (const auto& level : mipmap->levels) out.levels.push_back(grid_of(*level));
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& l = r.res.linear;
      SIMGPU_TRY(take_linear(l.devPtr, l.format, l.numChannels, l.sizeInBytes, out));
      const uint64_t width = l.sizeInBytes / out.element_bytes;
      SIMGPU_REQUIRE(width && width <= (uint64_t{1} << 28), CUDA_ERROR_INVALID_VALUE);
      out.dimensions = 1;
      out.levels = {{width, 1, 1, l.sizeInBytes, l.sizeInBytes, 0}};
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& p = r.res.pitch2D;
      SIMGPU_REQUIRE(p.width && p.height && p.pitchInBytes && p.pitchInBytes % 32 == 0,
                     CUDA_ERROR_INVALID_VALUE);
      SIMGPU_REQUIRE(p.width <= 131072 && p.height <= 65000 && p.pitchInBytes <= 2097120,
                     CUDA_ERROR_INVALID_VALUE);
      const uint64_t row = p.width * channel_bytes(p.format) * p.numChannels;
      SIMGPU_REQUIRE(row <= p.pitchInBytes, CUDA_ERROR_INVALID_VALUE);
      SIMGPU_TRY(take_linear(p.devPtr, p.format, p.numChannels, (p.height - 1) * p.pitchInBytes + row, out));
      out.dimensions = 2;
      out.levels = {{p.width, p.height, 1, p.pitchInBytes, p.pitchInBytes * p.height, 0}};
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

bool is_float(CUarray_format f) { return f == CU_AD_FORMAT_FLOAT || f == CU_AD_FORMAT_HALF; }
// Whether a fetch answers floats: float formats, and 8 and 16 bit integers read normalised.
bool reads_float(const TextureObject& t) {
  if (is_float(t.format)) return true;
  return !(t.texture.flags & CU_TRSF_READ_AS_INTEGER) && channel_bytes(t.format) < 4;
}

float half_value(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const float mantissa = float(h & 1023);
  const float sign = h & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 31) return mantissa == 0.0f ? sign * INFINITY : NAN;
  return sign * std::ldexp(mantissa + 1024.0f, exponent - 25);
}
float from_srgb(float v) { return v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f); }

// One channel as the 32 bits a fetch returns: a float's, or the sign- or zero-extended integer.
uint32_t channel(const TextureObject& t, const uint8_t* at, unsigned index, bool as_float) {
  auto bits = [](float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
  };
  auto read = [&](auto value) {
    memcpy(&value, at + index * sizeof value, sizeof value);
    return value;
  };
  switch (t.format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: {
      const uint8_t v = read(uint8_t{});
      if (!as_float) return v;
      const float f = float(v) / 255.0f;
      return bits(t.texture.flags & CU_TRSF_SRGB && index < 3 ? from_srgb(f) : f);
    }
    case CU_AD_FORMAT_SIGNED_INT8: {
      const int8_t v = read(int8_t{});
      return as_float ? bits(std::max(-1.0f, float(v) / 127.0f)) : uint32_t(int32_t(v));
    }
    case CU_AD_FORMAT_UNSIGNED_INT16: {
      const uint16_t v = read(uint16_t{});
      return as_float ? bits(float(v) / 65535.0f) : v;
    }
    case CU_AD_FORMAT_SIGNED_INT16: {
      const int16_t v = read(int16_t{});
      return as_float ? bits(std::max(-1.0f, float(v) / 32767.0f)) : uint32_t(int32_t(v));
    }
    case CU_AD_FORMAT_HALF:
      return bits(half_value(read(uint16_t{})));
    default:
      return read(uint32_t{});
  }
}

// Where a texel index lands; false: outside, the border colour counts.
bool address_texel(int64_t& i, uint64_t n, CUaddress_mode mode) {
  const int64_t size = int64_t(n);
  switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP:
      i = (i % size + size) % size;
      return true;
    case CU_TR_ADDRESS_MODE_MIRROR: {
      const int64_t period = 2 * size;
      i = (i % period + period) % period;
      if (i >= size) i = period - 1 - i;
      return true;
    }
    case CU_TR_ADDRESS_MODE_BORDER:
      return i >= 0 && i < size;
    default:
      i = std::clamp<int64_t>(i, 0, size - 1);
      return true;
  }
}

int64_t whole(float x) {  // floor within what an index can be; NaN reads texel 0
  if (!(x > -1e9f)) return x != x ? 0 : -1000000000;
  return x < 1e9f ? int64_t(std::floor(x)) : 1000000000;
}

class Sampler {
 public:
  Sampler(const TextureObject& t, const uint8_t* base) : t_(t), base_(base), as_float_(reads_float(t)) {}

  void texel(const TexelGrid& g, int64_t x, int64_t y, int64_t z, bool zero_outside, uint32_t out[4]) const {
    bool inside = true;
    if (zero_outside) {  // linear memory
      inside = x >= 0 && x < int64_t(g.width);
    } else {
      inside = address_texel(x, g.width, mode(0));
      if (inside && t_.dimensions >= 2) inside = address_texel(y, g.height, mode(1));
      if (inside && t_.dimensions >= 3) inside = address_texel(z, g.planes, mode(2));
    }
    if (!inside) {
      for (unsigned c = 0; c < 4; ++c) {
        out[c] = 0;
        if (zero_outside || c >= t_.channels) continue;
        const float border = t_.texture.borderColor[c];
        if (as_float_) {
          memcpy(&out[c], &border, 4);
        } else {
          out[c] = uint32_t(int64_t(border));
        }
      }
      return;
    }
    const uint8_t* at =
        base_ + g.offset + uint64_t(z) * g.slice + uint64_t(y) * g.pitch + uint64_t(x) * t_.element_bytes;
    for (unsigned c = 0; c < 4; ++c) out[c] = c < t_.channels ? channel(t_, at, c, as_float_) : 0;
  }

  void level(const TexelGrid& g, const float* xyz, int64_t layer, uint32_t out[4]) const {
    const unsigned n = t_.dimensions;
    const uint64_t sizes[3] = {g.width, g.height, g.planes};
    float at[3] = {0, 0, 0};
    for (unsigned d = 0; d < n; ++d) at[d] = coordinate(xyz[d], sizes[d], mode(d));
    if (t_.texture.filterMode == CU_TR_FILTER_MODE_POINT || !as_float_) {
      texel(g, whole(at[0]), whole(at[1]), n == 3 ? whole(at[2]) : layer, false, out);
      return;
    }
    int64_t base[3] = {0, 0, layer};
    float weight[3] = {0, 0, 0};
    for (unsigned d = 0; d < n; ++d) {
      const float b = at[d] - 0.5f;
      base[d] = whole(b);
      // 1.8 fixed point: a weight of one is representable, the rest rounds to 1/256.
      weight[d] = std::isfinite(b) ? std::nearbyint((b - std::floor(b)) * 256.0f) / 256.0f : 0.0f;
    }
    float sum[4] = {0, 0, 0, 0};
    for (unsigned corner = 0; corner < (1u << n); ++corner) {
      float share = 1;
      int64_t p[3] = {base[0], base[1], base[2]};
      for (unsigned d = 0; d < n; ++d) {
        const bool upper = corner >> d & 1;
        share *= upper ? weight[d] : 1.0f - weight[d];
        if (upper) ++p[d];
      }
      if (share == 0) continue;  // also keeps an infinite neighbour out of a fetch at a texel's centre
      uint32_t v[4];
      texel(g, p[0], p[1], p[2], false, v);
      for (unsigned c = 0; c < 4; ++c) {
        float f;
        memcpy(&f, &v[c], 4);
        sum[c] += share * f;
      }
    }
    memcpy(out, sum, sizeof sum);
  }

  bool linear_levels() const { return t_.texture.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR && as_float_; }

 private:
  CUaddress_mode mode(unsigned d) const {
    const CUaddress_mode m = t_.texture.addressMode[d];
    // Wrap and mirror exist for normalised coordinates only; otherwise they mean clamp.
    const bool normalised = t_.texture.flags & CU_TRSF_NORMALIZED_COORDINATES;
    if (!normalised && (m == CU_TR_ADDRESS_MODE_WRAP || m == CU_TR_ADDRESS_MODE_MIRROR))
      return CU_TR_ADDRESS_MODE_CLAMP;
    return m;
  }
  float coordinate(float x, uint64_t n, CUaddress_mode m) const {
    if (!(t_.texture.flags & CU_TRSF_NORMALIZED_COORDINATES)) return x;
    if (!std::isfinite(x)) return x;
    if (m == CU_TR_ADDRESS_MODE_WRAP) x -= std::floor(x);
    if (m == CU_TR_ADDRESS_MODE_MIRROR) {
      const float f = std::floor(x);
      x = std::fmod(f, 2.0f) == 0.0f ? x - f : 1.0f - (x - f);
    }
    return x * float(n);
  }
  const TextureObject& t_;
  const uint8_t* const base_;
  const bool as_float_;
};

class Source : public exec::TextureSource {
 public:
  explicit Source(int device) : device_(device) {}

  bool sample(uint64_t handle, int geom, bool layered, bool float_coords, const float* xyz,
              const int32_t* ixyz, float lod, uint32_t out[4]) const override {
    const TextureObject* t = find(handle, false);
    if (!t || layered != t->layered || geom != int(t->dimensions)) return false;
    const uint8_t* base = bytes_of(*t);
    if (!base) return false;
    const Sampler sampler(*t, base);
    const TexelGrid& top = t->levels[0];
    const int64_t layer = layered ? std::clamp<int64_t>(ixyz[3], 0, int64_t(top.planes) - 1) : 0;
    const bool linear_memory = t->resource.resType == CU_RESOURCE_TYPE_LINEAR;
    if (!float_coords) {
      sampler.texel(top, ixyz[0], ixyz[1], geom == 3 ? ixyz[2] : layer, linear_memory, out);
      return true;
    }
    if (linear_memory) {  // a buffer knows no filtering
      sampler.texel(top, whole(xyz[0]), 0, 0, true, out);
      return true;
    }
    if (t->levels.size() == 1) {
      sampler.level(top, xyz, layer, out);
      return true;
    }
    float l = lod + t->texture.mipmapLevelBias;
    const float last = float(t->levels.size() - 1);
    l = std::max(l, t->texture.minMipmapLevelClamp);
    if (t->texture.maxMipmapLevelClamp > 0) l = std::min(l, t->texture.maxMipmapLevelClamp);
    l = l > 0 ? std::min(l, last) : 0.0f;  // NaN too
    if (!sampler.linear_levels()) {
      sampler.level(t->levels[size_t(std::floor(l + 0.5f))], xyz, layer, out);
      return true;
    }
    const size_t lower = size_t(l), upper = std::min(lower + 1, t->levels.size() - 1);
    const float share = std::nearbyint((l - float(lower)) * 256.0f) / 256.0f;
    float a[4], b[4];
    sampler.level(t->levels[lower], xyz, layer, out);
    memcpy(a, out, sizeof a);
    if (share == 0) return true;
    sampler.level(t->levels[upper], xyz, layer, out);
    memcpy(b, out, sizeof b);
    for (int c = 0; c < 4; ++c) a[c] = (1.0f - share) * a[c] + share * b[c];
    memcpy(out, a, sizeof a);
    return true;
  }

  bool surface(uint64_t handle, int geom, const int32_t* xyz, void* data, uint32_t bytes,
               bool write) const override {
    const TextureObject* t = find(handle, true);
    if (!t || geom != int(t->dimensions)) return false;
    uint8_t* base = bytes_of(*t);
    if (!base) return false;
    const TexelGrid& g = t->levels[0];
    const int64_t x = xyz[0], y = geom >= 2 ? xyz[1] : 0, z = geom == 3 ? xyz[2] : t->layered ? xyz[3] : 0;
    if (x < 0 || y < 0 || z < 0 || uint64_t(x) + bytes > g.width * t->element_bytes ||
        y >= int64_t(g.height) || z >= int64_t(g.planes) || x % bytes)
      return false;
    uint8_t* at = base + g.offset + uint64_t(z) * g.slice + uint64_t(y) * g.pitch + uint64_t(x);
    if (write) {
      memcpy(at, data, bytes);
    } else {
      memcpy(data, at, bytes);
    }
    return true;
  }

  bool query(uint64_t handle, const char* what, uint32_t& out) const override {
    const TextureObject* t = find(handle, false);
    if (!t) t = find(handle, true);
    if (!t) return false;
    const TexelGrid& g = t->levels[0];
    if (!strcmp(what, "width")) return out = uint32_t(g.width), true;
    if (!strcmp(what, "height")) return out = t->dimensions >= 2 ? uint32_t(g.height) : 0, true;
    if (!strcmp(what, "depth")) return out = t->dimensions == 3 ? uint32_t(g.planes) : 0, true;
    if (!strcmp(what, "array_size")) return out = t->layered ? uint32_t(g.planes) : 0, true;
    if (!strcmp(what, "num_mipmap_levels")) return out = uint32_t(t->levels.size()), true;
    if (!strcmp(what, "num_samples")) return out = 1, true;
    if (!strcmp(what, "normalized_coords"))
      return out = t->texture.flags & CU_TRSF_NORMALIZED_COORDINATES ? 1 : 0, true;
    return false;
  }

 private:
  // The object stays alive for the thread's next fetch: fetches of a kernel mostly ask for the same one.
  const TextureObject* find(uint64_t handle, bool surface) const {
    thread_local std::shared_ptr<const TextureObject> last;
    thread_local uint64_t last_handle = 0, last_change = 0;
    const uint64_t change = changes.load(std::memory_order_acquire);
    if (last_handle != handle || last_change != change) {
      Registry& r = registry();
      std::shared_lock<std::shared_mutex> lock(r.mutex);
      auto at = r.objects.find(handle);
      last = at == r.objects.end() ? nullptr : at->second;
      last_handle = handle;
      last_change = change;
    }
    return last && last->surface == surface ? last.get() : nullptr;
  }
  uint8_t* bytes_of(const TextureObject& t) const {
    if (t.memory) {
      if (!t.memory->alive || t.memory->device != device_) return nullptr;
      return t.memory->host;
    }
    const AllocationRef a = MemoryMap::get().find(t.address);
    if (!a || t.bytes > a->end() - t.address) return nullptr;
    return a->host + (t.address - a->base);
  }
  const int device_;

 public:
  static std::atomic<uint64_t> changes;
};
std::atomic<uint64_t> Source::changes{1};

const exec::TextureSource* source_of(Context& context) {
  static std::vector<Source*>* sources = [] {
    auto* made = new std::vector<Source*>;
    for (const Device* device : platform()->devices) made->push_back(new Source(device->ordinal));
    return made;
  }();
  return (*sources)[size_t(context.device->ordinal)];
}
[[maybe_unused]] const bool installed = [] {
  g_texture_source = source_of;
  return true;
}();

CUresult check(const CUDA_TEXTURE_DESC& d, const TextureObject& t) {
  for (CUaddress_mode mode : d.addressMode)
    SIMGPU_REQUIRE(unsigned(mode) <= CU_TR_ADDRESS_MODE_BORDER, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(unsigned(d.filterMode) <= 1 && unsigned(d.mipmapFilterMode) <= 1, CUDA_ERROR_INVALID_VALUE);
  constexpr unsigned kKnown = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                              CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  SIMGPU_REQUIRE(!(d.flags & CU_TRSF_SEAMLESS_CUBEMAP), CUDA_ERROR_NOT_SUPPORTED);
  SIMGPU_REQUIRE(!(d.flags & ~kKnown), CUDA_ERROR_INVALID_VALUE);
  if (t.resource.resType == CU_RESOURCE_TYPE_LINEAR) return CUDA_SUCCESS;  // no filtering, no addressing
  SIMGPU_REQUIRE(d.filterMode == CU_TR_FILTER_MODE_POINT || reads_float(t), CUDA_ERROR_INVALID_VALUE);
  // Levels differ in size: only normalised coordinates mean the same place in all.
  SIMGPU_REQUIRE(t.levels.size() == 1 || d.flags & CU_TRSF_NORMALIZED_COORDINATES, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}
}  // namespace

CUresult create_texture(Context& context, const CUDA_RESOURCE_DESC& resource,
                        const CUDA_TEXTURE_DESC& texture, const CUDA_RESOURCE_VIEW_DESC* view,
                        uint64_t& out) {
  auto t = std::make_shared<TextureObject>();
  SIMGPU_TRY(take_resource(resource, *t));
  t->texture = texture;
  t->context = shared(&context);
  SIMGPU_TRY(check(texture, *t));
  if (view) {
    const bool array =
        resource.resType == CU_RESOURCE_TYPE_ARRAY || resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    SIMGPU_REQUIRE(array, CUDA_ERROR_INVALID_VALUE);
    // A view that reinterprets texels is not there; one that chooses levels of the same format is.
    SIMGPU_REQUIRE(view->format == CU_RES_VIEW_FORMAT_NONE, CUDA_ERROR_NOT_SUPPORTED);
    const size_t last = std::max(view->firstMipmapLevel, view->lastMipmapLevel);
    SIMGPU_REQUIRE(last < t->levels.size(), CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(view->firstLayer == 0, CUDA_ERROR_NOT_SUPPORTED);
    t->levels = {t->levels.begin() + view->firstMipmapLevel, t->levels.begin() + long(last) + 1};
    t->view = *view;
    t->has_view = true;
  }
  SIMGPU_TRY(fault_point("texture", CUDA_ERROR_OUT_OF_MEMORY));
  out = enter(std::move(t));
  return CUDA_SUCCESS;
}

CUresult create_surface(Context& context, const CUDA_RESOURCE_DESC& resource, uint64_t& out) {
  SIMGPU_REQUIRE(resource.resType == CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
  auto t = std::make_shared<TextureObject>();
  SIMGPU_TRY(take_resource(resource, *t));
  const Array* array = lookup<Array>(resource.res.array.hArray);
  SIMGPU_REQUIRE(array->desc.Flags & CUDA_ARRAY3D_SURFACE_LDST, CUDA_ERROR_INVALID_VALUE);
  t->surface = true;
  t->context = shared(&context);
  out = enter(std::move(t));
  return CUDA_SUCCESS;
}

std::shared_ptr<const TextureObject> find_texture(uint64_t handle, bool surface) {
  Registry& r = registry();
  std::shared_lock<std::shared_mutex> lock(r.mutex);
  auto at = r.objects.find(handle);
  return at != r.objects.end() && at->second->surface == surface ? at->second : nullptr;
}

bool drop_texture(uint64_t handle, bool surface) {
  Registry& r = registry();
  std::shared_ptr<const TextureObject> gone;  // destroyed outside the lock
  std::unique_lock<std::shared_mutex> lock(r.mutex);
  auto at = r.objects.find(handle);
  if (at == r.objects.end() || at->second->surface != surface) return false;
  gone = std::move(at->second);
  r.objects.erase(at);
  Source::changes.fetch_add(1, std::memory_order_release);
  lock.unlock();
  return true;
}
}  // namespace simgpu::driver
