// The rim of a hook: device ordinals are translated here, before any link sees the call and after every link
// is done with it. So the model and all engines know physical ordinals only, and the program knows virtual
// ones only. Functions without ordinals have an empty rim. Copies of the program's structures are made only
// while a map is active.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/exec/host.h"
#include "runtime/exec/ordinals.h"

namespace shunt::exec {

struct OrdinalMasks {
  uint32_t in = 0, out = 0;
};
constexpr OrdinalMasks ordinal_masks(uint32_t slot) {
  switch (slot) {
#define SHUNT_ORDINALS(symbol, in, out) \
  case SHUNT_SLOT_##symbol:             \
    return {in, out};
#include "runtime/exec/ordinals.def"
#undef SHUNT_ORDINALS
    default:
      return {};
  }
}

// Copies of up to kInline structures without the heap.
template <class T>
class Copies {
 public:
  Copies(const T* from, size_t count) : count_(from ? count : 0) {
    if (count_ > kInline) heap_.reset(new T[count_]);
    for (size_t i = 0; i < count_; i++) data()[i] = from[i];
    present_ = from != nullptr;
  }
  T* data() { return heap_ ? heap_.get() : inline_.data(); }
  T* pointer() { return present_ ? data() : nullptr; }
  size_t size() const { return count_; }
  T* begin() { return data(); }
  T* end() { return data() + count_; }

 private:
  static constexpr size_t kInline = 8;
  std::array<T, kInline> inline_;
  std::unique_ptr<T[]> heap_;
  size_t count_;
  bool present_ = false;
};

// Only `device` locations carry an ordinal; host, NUMA and types newer than this header stay as they are.
inline void to_physical(const placement::OrdinalMap& map, CUmemLocation& l) {
  if (l.type == CU_MEM_LOCATION_TYPE_DEVICE) l.id = map.to_physical(l.id);
}
inline void to_virtual(const placement::OrdinalMap& map, CUmemLocation& l) {
  if (l.type == CU_MEM_LOCATION_TYPE_DEVICE) l.id = map.to_virtual(l.id);
}

// Rim<Slot>::run(next, arguments...): calls next(arguments...) once. The primary template handles
// ordinals.def.
template <uint32_t Slot>
struct Rim {
  static constexpr OrdinalMasks kMasks = ordinal_masks(Slot);
  static constexpr bool kActive = kMasks.in != 0 || kMasks.out != 0;

  template <class Next, class... A>
  static CUresult run(Next&& next, A... a) {
    if constexpr (!kActive) {
      return next(a...);
    } else {
      bind_ordinals();
      const placement::OrdinalMap* map = ordinals();
      if (!map) return next(a...);
      size_t i = 0;
      (translate_in(*map, a, i++), ...);
      const CUresult result = next(a...);
      i = 0;
      if (result == CUDA_SUCCESS) (translate_out(*map, a, i++), ...);
      return result;
    }
  }

 private:
  template <class T>
  static void translate_in(const placement::OrdinalMap& map, T& value, size_t i) {
    if constexpr (std::is_same_v<T, int>)
      if (kMasks.in >> i & 1) value = map.to_physical(value);
  }
  template <class T>
  static void translate_out(const placement::OrdinalMap& map, T& value, size_t i) {
    if constexpr (std::is_same_v<T, int*>)
      if ((kMasks.out >> i & 1) && value) *value = map.to_virtual(*value);
  }
};

// A rim of its own for one function: SHUNT_RIM(symbol, parameters) { body using map, next }.
#define SHUNT_RIM(symbol, ...)                                                         \
  template <>                                                                          \
  struct Rim<SHUNT_SLOT_##symbol> {                                                    \
    static constexpr bool kActive = true;                                              \
    template <class Next, class... A>                                                  \
    static CUresult run(Next&& next, A... a) {                                         \
      bind_ordinals();                                                                 \
      const placement::OrdinalMap* map = ordinals();                                   \
      return map ? mapped(*map, next, a...) : next(a...);                              \
    }                                                                                  \
    template <class Next>                                                              \
    static CUresult mapped(const placement::OrdinalMap& map, Next& next, __VA_ARGS__); \
  };                                                                                   \
  template <class Next>                                                                \
  CUresult Rim<SHUNT_SLOT_##symbol>::mapped(const placement::OrdinalMap& map, Next& next, __VA_ARGS__)

// Virtual memory management and pools
SHUNT_RIM(cuMemCreate, CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
          unsigned long long flags) {
  Copies<CUmemAllocationProp> p(prop, 1);
  for (auto& x : p) to_physical(map, x.location);
  return next(handle, size, p.pointer(), flags);
}
SHUNT_RIM(cuMemGetAllocationGranularity, size_t* granularity, const CUmemAllocationProp* prop,
          CUmemAllocationGranularity_flags option) {
  Copies<CUmemAllocationProp> p(prop, 1);
  for (auto& x : p) to_physical(map, x.location);
  return next(granularity, p.pointer(), option);
}
SHUNT_RIM(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp* prop,
          CUmemGenericAllocationHandle handle) {
  const CUresult result = next(prop, handle);
  if (result == CUDA_SUCCESS && prop) to_virtual(map, prop->location);
  return result;
}
SHUNT_RIM(cuMemSetAccess, CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  Copies<CUmemAccessDesc> d(desc, count);
  for (auto& x : d) to_physical(map, x.location);
  return next(ptr, size, d.pointer(), count);
}
SHUNT_RIM(cuMemGetAccess, unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  Copies<CUmemLocation> l(location, 1);
  for (auto& x : l) to_physical(map, x);
  return next(flags, l.pointer(), ptr);
}
SHUNT_RIM(cuMemPoolCreate, CUmemoryPool* pool, const CUmemPoolProps* props) {
  Copies<CUmemPoolProps> p(props, 1);
  for (auto& x : p) to_physical(map, x.location);
  return next(pool, p.pointer());
}
SHUNT_RIM(cuMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc* desc, size_t count) {
  Copies<CUmemAccessDesc> d(desc, count);
  for (auto& x : d) to_physical(map, x.location);
  return next(pool, d.pointer(), count);
}
SHUNT_RIM(cuMemPoolGetAccess, CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  Copies<CUmemLocation> l(location, 1);
  for (auto& x : l) to_physical(map, x);
  return next(flags, pool, l.pointer());
}
SHUNT_RIM(cuMemGetDefaultMemPool, CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  Copies<CUmemLocation> l(location, 1);
  for (auto& x : l) to_physical(map, x);
  return next(pool, l.pointer(), type);
}
SHUNT_RIM(cuMemGetMemPool, CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  Copies<CUmemLocation> l(location, 1);
  for (auto& x : l) to_physical(map, x);
  return next(pool, l.pointer(), type);
}
SHUNT_RIM(cuMemSetMemPool, CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  Copies<CUmemLocation> l(location, 1);
  for (auto& x : l) to_physical(map, x);
  return next(l.pointer(), type, pool);
}

// Managed memory: advice, prefetch, attributes
SHUNT_RIM(cuMemAdvise_v2, CUdeviceptr ptr, size_t count, CUmem_advise advice, CUmemLocation location) {
  to_physical(map, location);
  return next(ptr, count, advice, location);
}
template <class Map, class Next>
CUresult mapped_prefetch(const Map& map, Next& next, CUdeviceptr ptr, size_t count, CUmemLocation location,
                         unsigned int flags, CUstream stream) {
  to_physical(map, location);
  return next(ptr, count, location, flags, stream);
}
SHUNT_RIM(cuMemPrefetchAsync_v2, CUdeviceptr ptr, size_t count, CUmemLocation location, unsigned int flags,
          CUstream stream) {
  return mapped_prefetch(map, next, ptr, count, location, flags, stream);
}
SHUNT_RIM(cuMemPrefetchAsync_v2_ptsz, CUdeviceptr ptr, size_t count, CUmemLocation location,
          unsigned int flags, CUstream stream) {
  return mapped_prefetch(map, next, ptr, count, location, flags, stream);
}
template <class Map, class Next>
CUresult mapped_prefetch_batch(const Map& map, Next& next, CUdeviceptr* ptrs, size_t* sizes, size_t count,
                               CUmemLocation* locations, size_t* indices, size_t location_count,
                               unsigned long long flags, CUstream stream) {
  Copies<CUmemLocation> l(locations, location_count);
  for (auto& x : l) to_physical(map, x);
  return next(ptrs, sizes, count, l.pointer(), indices, location_count, flags, stream);
}
SHUNT_RIM(cuMemPrefetchBatchAsync, CUdeviceptr* ptrs, size_t* sizes, size_t count, CUmemLocation* locations,
          size_t* indices, size_t n, unsigned long long flags, CUstream stream) {
  return mapped_prefetch_batch(map, next, ptrs, sizes, count, locations, indices, n, flags, stream);
}
SHUNT_RIM(cuMemPrefetchBatchAsync_ptsz, CUdeviceptr* ptrs, size_t* sizes, size_t count,
          CUmemLocation* locations, size_t* indices, size_t n, unsigned long long flags, CUstream stream) {
  return mapped_prefetch_batch(map, next, ptrs, sizes, count, locations, indices, n, flags, stream);
}
SHUNT_RIM(cuMemDiscardAndPrefetchBatchAsync, CUdeviceptr* ptrs, size_t* sizes, size_t count,
          CUmemLocation* locations, size_t* indices, size_t n, unsigned long long flags, CUstream stream) {
  return mapped_prefetch_batch(map, next, ptrs, sizes, count, locations, indices, n, flags, stream);
}
SHUNT_RIM(cuMemDiscardAndPrefetchBatchAsync_ptsz, CUdeviceptr* ptrs, size_t* sizes, size_t count,
          CUmemLocation* locations, size_t* indices, size_t n, unsigned long long flags, CUstream stream) {
  return mapped_prefetch_batch(map, next, ptrs, sizes, count, locations, indices, n, flags, stream);
}

// Attributes that answer with an ordinal. An id is one only when its type attribute says `device`.
inline void range_attribute_to_virtual(const placement::OrdinalMap& map, void* data, size_t size,
                                       CUmem_range_attribute attribute, CUdeviceptr ptr, size_t count) {
  if (!data) return;
  auto* values = static_cast<int*>(data);
  auto id_of = [&](CUmem_range_attribute type_attribute) {
    CUmemLocationType type = CU_MEM_LOCATION_TYPE_INVALID;
    const auto ask = driver<SHUNT_SLOT_cuMemRangeGetAttribute>();
    if (ask && ask(&type, sizeof type, type_attribute, ptr, count) == CUDA_SUCCESS &&
        type == CU_MEM_LOCATION_TYPE_DEVICE)
      values[0] = map.to_virtual(values[0]);
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      for (size_t i = 0; i < size / sizeof(int); i++) values[i] = map.to_virtual(values[i]);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      id_of(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      id_of(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE);
      break;
    default:
      break;
  }
}
SHUNT_RIM(cuMemRangeGetAttribute, void* data, size_t size, CUmem_range_attribute attribute, CUdeviceptr ptr,
          size_t count) {
  const CUresult result = next(data, size, attribute, ptr, count);
  if (result == CUDA_SUCCESS) range_attribute_to_virtual(map, data, size, attribute, ptr, count);
  return result;
}
SHUNT_RIM(cuMemRangeGetAttributes, void** data, size_t* sizes, CUmem_range_attribute* attributes, size_t n,
          CUdeviceptr ptr, size_t count) {
  const CUresult result = next(data, sizes, attributes, n, ptr, count);
  if (result == CUDA_SUCCESS && data && sizes && attributes)
    for (size_t i = 0; i < n; i++)
      range_attribute_to_virtual(map, data[i], sizes[i], attributes[i], ptr, count);
  return result;
}
SHUNT_RIM(cuPointerGetAttribute, void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  const CUresult result = next(data, attribute, ptr);
  if (result == CUDA_SUCCESS && data && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    *static_cast<int*>(data) = map.to_virtual(*static_cast<int*>(data));
  return result;
}
SHUNT_RIM(cuPointerGetAttributes, unsigned int n, CUpointer_attribute* attributes, void** data,
          CUdeviceptr ptr) {
  const CUresult result = next(n, attributes, data, ptr);
  if (result == CUDA_SUCCESS && attributes && data)
    for (unsigned int i = 0; i < n; i++)
      if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && data[i])
        *static_cast<int*>(data[i]) = map.to_virtual(*static_cast<int*>(data[i]));
  return result;
}

// Copies with location hints
template <class Map, class Next, class... Rest>
CUresult mapped_copy_batch(const Map& map, Next& next, CUdeviceptr* dst, CUdeviceptr* src, size_t* sizes,
                           size_t count, CUmemcpyAttributes* attributes, size_t* indices, size_t n,
                           Rest... rest) {
  Copies<CUmemcpyAttributes> a(attributes, n);
  for (auto& x : a) to_physical(map, x.srcLocHint), to_physical(map, x.dstLocHint);
  return next(dst, src, sizes, count, a.pointer(), indices, n, rest...);
}
// (cuda.h defines some of these names as macros of their _v2: SHUNT_RIM pastes its first argument, so it is
// never expanded.)
SHUNT_RIM(cuMemcpyBatchAsync, CUdeviceptr* dst, CUdeviceptr* src, size_t* sizes, size_t count,
          CUmemcpyAttributes* attributes, size_t* indices, size_t n, size_t* fail, CUstream stream) {
  return mapped_copy_batch(map, next, dst, src, sizes, count, attributes, indices, n, fail, stream);
}
SHUNT_RIM(cuMemcpyBatchAsync_ptsz, CUdeviceptr* dst, CUdeviceptr* src, size_t* sizes, size_t count,
          CUmemcpyAttributes* attributes, size_t* indices, size_t n, size_t* fail, CUstream stream) {
  return mapped_copy_batch(map, next, dst, src, sizes, count, attributes, indices, n, fail, stream);
}
SHUNT_RIM(cuMemcpyBatchAsync_v2, CUdeviceptr* dst, CUdeviceptr* src, size_t* sizes, size_t count,
          CUmemcpyAttributes* attributes, size_t* indices, size_t n, CUstream stream) {
  return mapped_copy_batch(map, next, dst, src, sizes, count, attributes, indices, n, stream);
}
SHUNT_RIM(cuMemcpyBatchAsync_v2_ptsz, CUdeviceptr* dst, CUdeviceptr* src, size_t* sizes, size_t count,
          CUmemcpyAttributes* attributes, size_t* indices, size_t n, CUstream stream) {
  return mapped_copy_batch(map, next, dst, src, sizes, count, attributes, indices, n, stream);
}

inline void to_physical(const placement::OrdinalMap& map, CUDA_MEMCPY3D_BATCH_OP& op) {
  for (CUmemcpy3DOperand* side : {&op.src, &op.dst})
    if (side->type == CU_MEMCPY_OPERAND_TYPE_POINTER) to_physical(map, side->op.ptr.locHint);
}
template <class Map, class Next, class... Rest>
CUresult mapped_copy_3d(const Map& map, Next& next, size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, Rest... rest) {
  Copies<CUDA_MEMCPY3D_BATCH_OP> o(ops, n);
  for (auto& x : o) to_physical(map, x);
  return next(n, o.pointer(), rest...);
}
SHUNT_RIM(cuMemcpy3DBatchAsync, size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, size_t* fail, unsigned long long flags,
          CUstream stream) {
  return mapped_copy_3d(map, next, n, ops, fail, flags, stream);
}
SHUNT_RIM(cuMemcpy3DBatchAsync_ptsz, size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, size_t* fail,
          unsigned long long flags, CUstream stream) {
  return mapped_copy_3d(map, next, n, ops, fail, flags, stream);
}
SHUNT_RIM(cuMemcpy3DBatchAsync_v2, size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, unsigned long long flags,
          CUstream stream) {
  return mapped_copy_3d(map, next, n, ops, flags, stream);
}
SHUNT_RIM(cuMemcpy3DBatchAsync_v2_ptsz, size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, unsigned long long flags,
          CUstream stream) {
  return mapped_copy_3d(map, next, n, ops, flags, stream);
}

// Graph nodes that allocate. accessDescs is the program's own array, so it is copied too.
SHUNT_RIM(cuGraphAddMemAllocNode, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t n,
          CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  if (!params) return next(node, graph, dependencies, n, params);
  CUDA_MEM_ALLOC_NODE_PARAMS p = *params;
  Copies<CUmemAccessDesc> d(p.accessDescs, p.accessDescCount);
  for (auto& x : d) to_physical(map, x.location);
  to_physical(map, p.poolProps.location);
  p.accessDescs = d.pointer();
  const CUresult result = next(node, graph, dependencies, n, &p);
  params->dptr = p.dptr;
  return result;
}
SHUNT_RIM(cuGraphMemAllocNodeGetParams, CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  // accessDescs points into the driver's own memory here: it keeps physical ordinals (documented in
  // docs/placement.md).
  const CUresult result = next(node, params);
  if (result == CUDA_SUCCESS && params) to_virtual(map, params->poolProps.location);
  return result;
}
template <class Map, class Next, class... Front>
CUresult mapped_add_node(const Map& map, Next& next, CUgraphNodeParams* params, Front... front) {
  if (!params || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) return next(front..., params);
  CUgraphNodeParams p = *params;
  Copies<CUmemAccessDesc> d(p.alloc.accessDescs, p.alloc.accessDescCount);
  for (auto& x : d) to_physical(map, x.location);
  to_physical(map, p.alloc.poolProps.location);
  p.alloc.accessDescs = d.pointer();
  const CUresult result = next(front..., &p);
  params->alloc.dptr = p.alloc.dptr;
  return result;
}
SHUNT_RIM(cuGraphAddNode, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t n,
          CUgraphNodeParams* params) {
  return mapped_add_node(map, next, params, node, graph, dependencies, n);
}
SHUNT_RIM(cuGraphAddNode_v2, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
          const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* params) {
  return mapped_add_node(map, next, params, node, graph, dependencies, edges, n);
}

}  // namespace shunt::exec
