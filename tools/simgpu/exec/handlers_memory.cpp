// Loads and stores. A resolver (by state space and address width) checks bounds and alignment and says
// whether the lanes' addresses are contiguous, equal or scattered; the load and store loops then only move
// data. Per instruction set.
#include <emmintrin.h>

#include <type_traits>

#include "tools/simgpu/exec/lanes.h"

namespace simgpu::exec::SIMGPU_ISA {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

SIMGPU_INLINE void count(Ctx* c, const RegionEntry* r, u64 bytes, u32 access) {
  Stats* s = c->stats;
  if (__builtin_expect(r->remote, 0)) {
    if (r->peer)
      s->peer_bytes += bytes;
    else
      s->host_bytes += bytes;
  } else {
    if (access & kRead) s->bytes_read += bytes;
    if (access & kWrite) s->bytes_written += bytes;
  }
}

SIMGPU_INLINE RegionEntry* cached(Ctx* c, const Inst* i, u64 address, u64 bytes) {
  RegionEntry* r = &c->regions[c->region_of[i->id]];
  if (__builtin_expect(address >= r->base && address + bytes <= r->end && address + bytes > address, 1))
    return r;
  return find_region(c, i, address, bytes);
}

// One lane, any window. Null: fault raised.
__attribute__((noinline)) u8* lane_pointer(Ctx* c, const Inst* i, u64 address, u32 bytes, u32 lane,
                                           u32 access, bool generic) {
  if (address & (bytes - 1)) {
    raise_fault(c, i, Fault::misaligned_address, address, lane, nullptr);
    return nullptr;
  }
  if (generic && address >= kSharedWindow && address < kFunctionWindow) {
    if (address - kSharedWindow < kWindowSize) {
      u8* p = cluster_shared(c, static_cast<u32>(address - kSharedWindow), bytes);
      if (!p) raise_fault(c, i, Fault::illegal_address, address, lane, nullptr);
      return p;
    }
    if (address - kLocalWindow < kWindowSize) {
      const u64 off = address - kLocalWindow;
      if (off + bytes <= c->local_stride) return c->local + lane * c->local_stride + off;
    } else if (address - kParamWindow < kWindowSize) {
      const u64 off = address - kParamWindow;
      if (off + bytes <= c->param_bytes && !(access & kWrite)) return const_cast<u8*>(c->params) + off;
    }
    raise_fault(c, i, Fault::illegal_address, address, lane, nullptr);
    return nullptr;
  }
  RegionEntry* r = cached(c, i, address, bytes);
  if (!r || ((access & kWrite) && !r->writable)) {
    raise_fault(c, i, Fault::illegal_address, address, lane, nullptr);
    return nullptr;
  }
  count(c, r, bytes, access);
  if (c->record) record_access(c, i, address, bytes, 1, lane, access);
  return r->host + (address - r->base);
}

template <bool M>
Resolved per_lane(Ctx* c, const Inst* i, const u64* a, u64 off, u32 bytes, u32 access, bool generic) {
  const u32 m = M ? c->mask : kFullMask;
  u8* any = nullptr;
  for (u32 l = 0; l < kLanes; ++l) {
    if (!((m >> l) & 1)) continue;
    u8* p = lane_pointer(c, i, a[l] + off, bytes, l, access, generic);
    if (!p) return kFault;
    c->ptrs[l] = p;
    any = p;
  }
  if constexpr (M)
    for (u32 l = 0; l < kLanes; ++l)
      if (!((m >> l) & 1)) c->ptrs[l] = any;
  return kScattered;
}

void record_lanes(Ctx* c, const Inst* i, const u64* a, u64 off, u32 bytes, u32 access, u32 m) {
  for (u32 l = 0; l < kLanes; ++l)
    if ((m >> l) & 1) record_access(c, i, a[l] + off, bytes, 1, l, access);
}

// Global and const memory through 64-bit addresses; `Generic` adds the shared, local and param windows.
template <bool Generic, bool M>
Resolved resolve_global(Ctx* c, const Inst* i, u32 address_row, u32 bytes, u32 access) {
  const u64* a = row<u64>(c, address_row);
  const u64 off = i->imm;
  const u32 m = M ? c->mask : kFullMask;
  const u32 first = M ? static_cast<u32>(__builtin_ctz(m)) : 0;
  const u64 a0 = a[first];
  alignas(64) u64 filled[M ? kLanes : 1];
  const u64* v = a;
  if constexpr (M) {  // lanes that are off repeat the first active address
    SIMGPU_LANES filled[l] = ((m >> l) & 1) ? a[l] : a0;
    v = filled;
  }
  if (!(access & kScatterOnly)) {
    const u64 start = a0 - static_cast<u64>(first) * bytes;
    u64 apart = 0;
    if constexpr (M) {
      SIMGPU_LANES apart |= ((m >> l) & 1) ? a[l] ^ (start + static_cast<u64>(l) * bytes) : 0;
    } else {
      SIMGPU_LANES apart |= a[l] ^ (start + static_cast<u64>(l) * bytes);
    }
    if (apart == 0) {
      const u64 address = start + off;
      RegionEntry* r = &c->regions[c->region_of[i->id]];
      if (!(address >= r->base && address + kLanes * bytes <= r->end)) {
        r = find_region(c, i, a0 + off, bytes);
        if (r && !(address >= r->base && address + kLanes * bytes <= r->end)) r = nullptr;
      }
      if (__builtin_expect(r && !(address & (bytes - 1)) && (r->writable || !(access & kWrite)), 1)) {
        const u32 n = M ? static_cast<u32>(__builtin_popcount(m)) : kLanes;
        count(c, r, static_cast<u64>(n) * bytes, access);
        if (__builtin_expect(c->record, 0)) {
          if constexpr (M)
            record_lanes(c, i, a, off, bytes, access, m);
          else
            record_access(c, i, address, bytes, kLanes, 0, access);
        }
        c->host = r->host + (address - r->base);
        return kContiguous;
      }
    } else {
      u64 differ = 0;
      SIMGPU_LANES differ |= v[l] ^ a0;
      if (differ == 0) {
        u8* p = lane_pointer(c, i, a0 + off, bytes, first, access, Generic);
        if (!p) return kFault;
        // Local memory is the one space where one address means another place in each lane.
        if (!(Generic && a0 + off - kLocalWindow < kWindowSize)) {
          c->host = p;
          return kUniform;
        }
        return per_lane<M>(c, i, a, off, bytes, access, Generic);
      }
    }
  }
  u64 low = ~u64{0}, high = 0, bits = 0;
  SIMGPU_LANES {
    const u64 x = v[l] + off;
    low = x < low ? x : low;
    high = x > high ? x : high;
    bits |= x;
  }
  RegionEntry* r = &c->regions[c->region_of[i->id]];
  if (!(low >= r->base && high + bytes <= r->end))
    r = (!Generic || low < kSharedWindow) ? find_region(c, i, low, bytes) : nullptr;
  if (__builtin_expect(!r || high + bytes > r->end || high + bytes < high || (bits & (bytes - 1)) ||
                           ((access & kWrite) && !r->writable),
                       0))
    return per_lane<M>(c, i, a, off, bytes, access, Generic);
  count(c, r, static_cast<u64>(__builtin_popcount(m)) * bytes, access);
  if (__builtin_expect(c->record, 0)) record_lanes(c, i, a, off, bytes, access, m);
  const u64 delta = reinterpret_cast<u64>(r->host) - r->base + off;
  u64* out = reinterpret_cast<u64*>(c->ptrs);
  SIMGPU_LANES out[l] = v[l] + delta;
  return kScattered;
}

template <class A, bool M>
Resolved resolve_shared(Ctx* c, const Inst* i, u32 address_row, u32 bytes, u32 access) {
  const A* a = row<A>(c, address_row);
  const u32 off = static_cast<u32>(i->imm);
  const u32 m = M ? c->mask : kFullMask;
  const u32 first = M ? static_cast<u32>(__builtin_ctz(m)) : 0;
  const u32 a0 = static_cast<u32>(a[first]) + off;
  alignas(64) u32 v[kLanes];
  if constexpr (M) {
    SIMGPU_LANES v[l] = ((m >> l) & 1) ? static_cast<u32>(a[l]) + off : a0;
  } else {
    SIMGPU_LANES v[l] = static_cast<u32>(a[l]) + off;
  }
  u32 high = 0, bits = 0, differ = 0, apart = 0;
  const u32 start = a0 - first * bytes;
  SIMGPU_LANES {
    const u32 x = v[l];
    high = x > high ? x : high;
    bits |= x;
    differ |= x ^ a0;
    apart |= ((m >> l) & 1) ? x ^ (start + l * bytes) : 0;
  }
  c->stats->shared_bytes += static_cast<u64>(__builtin_popcount(m)) * bytes;
  if (__builtin_expect((bits & (bytes - 1)) || static_cast<u64>(high) + bytes > c->shared_bytes, 0)) {
    u8* any = nullptr;
    for (u32 l = 0; l < kLanes; ++l) {  // a neighbour's memory in the cluster, or a fault
      if (!((m >> l) & 1)) continue;
      if (v[l] & (bytes - 1)) {
        raise_fault(c, i, Fault::misaligned_address, v[l], l, nullptr);
        return kFault;
      }
      u8* p = cluster_shared(c, v[l], bytes);
      if (!p) {
        raise_fault(c, i, Fault::illegal_address, kSharedWindow + v[l], l, nullptr);
        return kFault;
      }
      c->ptrs[l] = any = p;
    }
    if constexpr (M)
      for (u32 l = 0; l < kLanes; ++l)
        if (!((m >> l) & 1)) c->ptrs[l] = any;
    return kScattered;
  }
  if (!(access & kScatterOnly)) {
    if (apart == 0 && static_cast<u64>(start) + kLanes * bytes <= c->shared_bytes) {
      c->host = c->shared + start;
      return kContiguous;
    }
    if (differ == 0) {
      c->host = c->shared + a0;
      return kUniform;
    }
  }
  const u64 base = reinterpret_cast<u64>(c->shared);
  u64* out = reinterpret_cast<u64*>(c->ptrs);
  SIMGPU_LANES out[l] = base + v[l];
  return kScattered;
}

template <class A, bool M>
Resolved resolve_local(Ctx* c, const Inst* i, u32 address_row, u32 bytes, u32 access) {
  (void)access;
  const A* a = row<A>(c, address_row);
  const u64 off = i->imm;
  const u32 m = M ? c->mask : kFullMask;
  const u32 first = M ? static_cast<u32>(__builtin_ctz(m)) : 0;
  const u64 a0 = static_cast<u64>(a[first]) + off;
  alignas(64) u64 v[kLanes];
  u64 high = 0, bits = 0;
  SIMGPU_LANES {
    const u64 x = (!M || ((m >> l) & 1)) ? static_cast<u64>(a[l]) + off : a0;
    v[l] = x;
    high = x > high ? x : high;
    bits |= x;
  }
  if (__builtin_expect((bits & (bytes - 1)) || high + bytes > c->local_stride || high + bytes < high, 0)) {
    for (u32 l = 0; l < kLanes; ++l) {
      if (v[l] & (bytes - 1)) {
        raise_fault(c, i, Fault::misaligned_address, v[l], l, nullptr);
        return kFault;
      }
      if (v[l] + bytes > c->local_stride || v[l] + bytes < v[l]) {
        raise_fault(c, i, Fault::illegal_address, kLocalWindow + v[l], l, nullptr);
        return kFault;
      }
    }
  }
  const u64 base = reinterpret_cast<u64>(c->local), stride = c->local_stride;
  u64* out = reinterpret_cast<u64*>(c->ptrs);
  SIMGPU_LANES out[l] = base + v[l] + l * stride;
  if constexpr (M) {
    const u64 keep = out[first];
    SIMGPU_LANES out[l] = ((m >> l) & 1) ? out[l] : keep;
  }
  return kScattered;
}

template <class A, bool M>
Resolved resolve_param(Ctx* c, const Inst* i, u32 address_row, u32 bytes, u32 access) {
  const A* a = row<A>(c, address_row);
  const u32 m = M ? c->mask : kFullMask;
  u8* any = nullptr;
  for (u32 l = 0; l < kLanes; ++l) {
    if (!((m >> l) & 1)) continue;
    const u64 off = static_cast<u64>(a[l]) + i->imm;
    if (off & (bytes - 1)) {
      raise_fault(c, i, Fault::misaligned_address, off, l, nullptr);
      return kFault;
    }
    if (off + bytes > c->param_bytes || off + bytes < off || (access & kWrite)) {
      raise_fault(c, i, Fault::illegal_address, off, l, nullptr);
      return kFault;
    }
    c->ptrs[l] = any = const_cast<u8*>(c->params) + off;
  }
  if constexpr (M)
    for (u32 l = 0; l < kLanes; ++l)
      if (!((m >> l) & 1)) c->ptrs[l] = any;
  return kScattered;
}

template <class T>
SIMGPU_INLINE T peek(const u8* p) {
  T v;
  __builtin_memcpy(&v, p, sizeof(T));
  return v;
}

// T: type in memory; D: what the register holds (u16 for 8- and 16-bit registers, u32, u64).
template <class T, class D>
struct Load {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const Resolved how = static_cast<const Resolver*>(i->aux)[M](c, i, i->a, sizeof(T), kRead);
    if (__builtin_expect(how == kFault, 0)) return nullptr;
    auto* d = row<Store<D>>(c, i->dst);
    [[maybe_unused]] const u32 m = c->mask;
    alignas(64) T in[kLanes];
    if (how == kContiguous) {
      if constexpr (!M && sizeof(T) == sizeof(*d)) {
        __builtin_memcpy(d, c->host, sizeof(in));
        return i + 1;
      }
      __builtin_memcpy(in, c->host, sizeof(in));
    } else if (how == kUniform) {
      const T v = peek<T>(c->host);
      SIMGPU_LANES put<M, D>(d, l, m, static_cast<D>(v));
      return i + 1;
    } else {
      for (u32 l = 0; l < kLanes; ++l) in[l] = peek<T>(c->ptrs[l]);
    }
    SIMGPU_LANES put<M, D>(d, l, m, static_cast<D>(in[l]));
    return i + 1;
  }
};
// Moves one lane's vector in pieces of at most 16 bytes, each by one instruction: concurrent blocks then
// never see half of a 16-byte access, which look-back scans rely on (as on the hardware; on x86 with AVX
// aligned 16-byte moves are single).
SIMGPU_INLINE void move_whole(u8* to, const u8* from, u32 bytes) {
  if (bytes == 4) {
    __builtin_memcpy(to, from, 4);
  } else if (bytes == 8) {
    __builtin_memcpy(to, from, 8);
  } else if (bytes == 2) {
    __builtin_memcpy(to, from, 2);
  } else {
    for (u32 at = 0; at < bytes; at += 16)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
}
inline constexpr u32 kMostVectorBytes = 32;

// Several elements: i->d of them, destinations in i->extra.
template <class T, class D>
struct LoadVector {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const u32 n = i->d, bytes = n * static_cast<u32>(sizeof(T));
    const Resolved how = static_cast<const Resolver*>(i->aux)[M](c, i, i->a, bytes, kRead);
    if (__builtin_expect(how == kFault, 0)) return nullptr;
    [[maybe_unused]] const u32 m = c->mask;
    alignas(64) u8 in[kLanes][kMostVectorBytes];
    if (how == kUniform) {
      move_whole(in[0], c->host, bytes);
    } else {
      for (u32 l = 0; l < kLanes; ++l)
        move_whole(in[l], how == kContiguous ? c->host + static_cast<u64>(l) * bytes : c->ptrs[l], bytes);
    }
    for (u32 e = 0; e < n; ++e) {
      auto* d = row<Store<D>>(c, i->extra[e]);
      if (how == kUniform) {
        const T v = peek<T>(in[0] + e * sizeof(T));
        SIMGPU_LANES put<M, D>(d, l, m, static_cast<D>(v));
      } else {
        for (u32 l = 0; l < kLanes; ++l) put<M, D>(d, l, m, static_cast<D>(peek<T>(in[l] + e * sizeof(T))));
      }
    }
    return i + 1;
  }
};
// T: type in memory; D: register row.
template <class T, class D>
struct StoreScalar {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const Resolved how = static_cast<const Resolver*>(i->aux)[M](c, i, i->a, sizeof(T), kWrite);
    if (__builtin_expect(how == kFault, 0)) return nullptr;
    const auto* s = row<Store<D>>(c, i->b);
    if (how == kContiguous) {
      if constexpr (!M) {
        if constexpr (sizeof(T) == sizeof(*s)) {
          __builtin_memcpy(c->host, s, sizeof(T) * kLanes);
          return i + 1;
        }
        alignas(64) T out[kLanes];
        SIMGPU_LANES out[l] = static_cast<T>(s[l]);
        __builtin_memcpy(c->host, out, sizeof(out));
        return i + 1;
      }
      for (u32 m = c->mask; m; m &= m - 1) {
        const u32 l = static_cast<u32>(__builtin_ctz(m));
        const T v = static_cast<T>(s[l]);
        __builtin_memcpy(c->host + l * sizeof(T), &v, sizeof(T));
      }
    } else if (how == kUniform) {  // the last lane wins
      const u32 l = M ? 31u - static_cast<u32>(__builtin_clz(c->mask)) : 31u;
      const T v = static_cast<T>(s[l]);
      __builtin_memcpy(c->host, &v, sizeof(T));
    } else {
      for (u32 m = M ? c->mask : kFullMask; m; m &= m - 1) {
        const u32 l = static_cast<u32>(__builtin_ctz(m));
        const T v = static_cast<T>(s[l]);
        __builtin_memcpy(c->ptrs[l], &v, sizeof(T));
      }
    }
    return i + 1;
  }
};
template <class T, class D>
struct StoreVector {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const u32 n = i->d, bytes = n * static_cast<u32>(sizeof(T));
    const Resolved how = static_cast<const Resolver*>(i->aux)[M](c, i, i->a, bytes, kWrite);
    if (__builtin_expect(how == kFault, 0)) return nullptr;
    alignas(64) u8 out[kLanes][kMostVectorBytes];
    for (u32 e = 0; e < n; ++e) {
      const auto* s = row<Store<D>>(c, i->extra[e]);
      for (u32 l = 0; l < kLanes; ++l) {
        const T v = static_cast<T>(s[l]);
        __builtin_memcpy(out[l] + e * sizeof(T), &v, sizeof(T));
      }
    }
    for (u32 m = M ? c->mask : kFullMask; m; m &= m - 1) {
      const u32 l = static_cast<u32>(__builtin_ctz(m));
      u8* p = how == kContiguous ? c->host + static_cast<u64>(l) * bytes
              : how == kUniform  ? c->host
                                 : c->ptrs[l];
      move_whole(p, out[l], bytes);
    }
    return i + 1;
  }
};

// Kernel parameters at a fixed offset: one value for the warp.
template <class T, class D>
struct LoadParam {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<Store<D>>(c, i->dst);
    const D v = static_cast<D>(peek<T>(c->params + i->imm));
    [[maybe_unused]] const u32 m = c->mask;
    SIMGPU_LANES put<M, D>(d, l, m, v);
    return i + 1;
  }
};

template <class T, class D>
void loads(HandlerTable* t, const char* scalar, const char* vector, const char* param) {
  add_handler(t, scalar, &Load<T, D>::template run<false>, &Load<T, D>::template run<true>);
  add_handler(t, vector, &LoadVector<T, D>::template run<false>, &LoadVector<T, D>::template run<true>);
  add_handler(t, param, &LoadParam<T, D>::template run<false>, &LoadParam<T, D>::template run<true>);
}
template <class T, class D>
void stores(HandlerTable* t, const char* scalar, const char* vector) {
  add_handler(t, scalar, &StoreScalar<T, D>::template run<false>, &StoreScalar<T, D>::template run<true>);
  add_handler(t, vector, &StoreVector<T, D>::template run<false>, &StoreVector<T, D>::template run<true>);
}

}  // namespace

void register_memory(HandlerTable* t) {
#define LOADS(T, D, K) loads<T, D>(t, "ld." K, "ldv." K, "ldp." K)
  LOADS(u8, u32, "u8.32");
  LOADS(s8, u16, "s8.16");
  LOADS(s8, s32, "s8.32");
  LOADS(u16, u32, "u16.32");
  LOADS(s16, s32, "s16.32");
  LOADS(u32, u32, "u32.32");
  LOADS(u8, u64, "u8.64");
  LOADS(s8, s64, "s8.64");
  LOADS(u16, u64, "u16.64");
  LOADS(s16, s64, "s16.64");
  LOADS(u32, u64, "u32.64");
  LOADS(s32, s64, "s32.64");
  LOADS(u64, u64, "u64.64");
#define STORES(T, D, K) stores<T, D>(t, "st." K, "stv." K)
  STORES(u8, u32, "u8.32");
  STORES(u16, u32, "u16.32");
  STORES(u32, u32, "u32.32");
  STORES(u8, u64, "u8.64");
  STORES(u16, u64, "u16.64");
  STORES(u32, u64, "u32.64");
  STORES(u64, u64, "u64.64");
  add_resolver(t, "global.64", &resolve_global<false, false>, &resolve_global<false, true>);
  add_resolver(t, "generic.64", &resolve_global<true, false>, &resolve_global<true, true>);
  add_resolver(t, "shared.32", &resolve_shared<u32, false>, &resolve_shared<u32, true>);
  add_resolver(t, "shared.64", &resolve_shared<u64, false>, &resolve_shared<u64, true>);
  add_resolver(t, "local.32", &resolve_local<u32, false>, &resolve_local<u32, true>);
  add_resolver(t, "local.64", &resolve_local<u64, false>, &resolve_local<u64, true>);
  add_resolver(t, "param.32", &resolve_param<u32, false>, &resolve_param<u32, true>);
  add_resolver(t, "param.64", &resolve_param<u64, false>, &resolve_param<u64, true>);
}

}  // namespace simgpu::exec::SIMGPU_ISA
