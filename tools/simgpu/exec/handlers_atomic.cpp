// Atomic read-modify-write. Global memory uses the host's atomics, since other workers, the host program and
// other simulated devices reach the same bytes. A block's shared memory is touched by one worker only and
// needs none.
#include <cstring>

#include "tools/simgpu/exec/float_bits.h"
#include "tools/simgpu/exec/registry.h"

namespace simgpu::exec {
namespace {

using namespace SIMGPU_ISA;  // half precision helpers, baseline copy

template <class T>
T* lanes_of(Ctx* c, uint32_t slot) {
  return reinterpret_cast<T*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

// One operation: T in memory; R the row's element; F(old, operand) -> new.
template <class T>
T load_any(const uint8_t* p) {
  return __atomic_load_n(reinterpret_cast<const T*>(p), __ATOMIC_RELAXED);
}
template <class T, class F>
T update(uint8_t* p, F f, bool plain) {
  T* q = reinterpret_cast<T*>(p);
  if (plain) {
    T old;
    std::memcpy(&old, q, sizeof(T));
    const T now = f(old);
    std::memcpy(q, &now, sizeof(T));
    return old;
  }
  T old = __atomic_load_n(q, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(q, &old, f(old), true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return old;
}

constexpr uint32_t kAccess = kRead | kWrite | kAtomic | kScatterOnly;
bool in_shared(Ctx* c, const uint8_t* p) { return p >= c->shared && p < c->shared + c->shared_bytes; }

// F: static T apply(T old, T operand, bool shared). Mergeable: operands of one address may be combined first.
template <class T, class R, class F>
struct Atomic {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const Resolved how = static_cast<const Resolver*>(i->aux)[M](c, i, i->a, sizeof(T), kAccess);
    if (how == kFault) return nullptr;
    const R* b = lanes_of<R>(c, i->b);
    R* d = lanes_of<R>(c, i->dst);
    const uint32_t m = M ? c->mask : kFullMask;
    const bool shared = in_shared(c, c->ptrs[static_cast<uint32_t>(__builtin_ctz(m))]);
    if constexpr (F::kMergeable) {
      if (!i->d) {  // a reduction: when all lanes name one address, one update will do
        const uint8_t* p = c->ptrs[static_cast<uint32_t>(__builtin_ctz(m))];
        bool same = true;
        for (uint32_t l = 0; l < kLanes; ++l) same &= c->ptrs[l] == p;
        if (same) {
          uint32_t rest = m & (m - 1);
          T v = static_cast<T>(b[static_cast<uint32_t>(__builtin_ctz(m))]);
          for (; rest; rest &= rest - 1)
            v = F::apply(v, static_cast<T>(b[static_cast<uint32_t>(__builtin_ctz(rest))]), shared);
          update<T>(
              c->ptrs[static_cast<uint32_t>(__builtin_ctz(m))],
              [v, shared](T old) { return F::apply(old, v, shared); }, shared);
          return i + 1;
        }
      }
    }
    for (uint32_t k = m; k; k &= k - 1) {
      const uint32_t l = static_cast<uint32_t>(__builtin_ctz(k));
      const T v = static_cast<T>(b[l]);
      T old;
      if constexpr (F::kNativeAdd) {
        if (!shared) {
          old = __atomic_fetch_add(reinterpret_cast<T*>(c->ptrs[l]), v, __ATOMIC_SEQ_CST);
          if (i->d) d[l] = old;
          continue;
        }
      }
      old = update<T>(
          c->ptrs[l], [v, shared](T o) { return F::apply(o, v, shared); }, shared);
      if (i->d) d[l] = old;
    }
    return i + 1;
  }
};
struct Plain {
  static constexpr bool kMergeable = false, kNativeAdd = false;
};
struct Merge {
  static constexpr bool kMergeable = true, kNativeAdd = false;
};
template <class T>
struct Add {
  static constexpr bool kMergeable = true, kNativeAdd = true;
  static T apply(T a, T b, bool) { return static_cast<T>(a + b); }
};
template <class T>
struct And : Merge {
  static T apply(T a, T b, bool) { return a & b; }
};
template <class T>
struct Or : Merge {
  static T apply(T a, T b, bool) { return a | b; }
};
template <class T>
struct Xor : Merge {
  static T apply(T a, T b, bool) { return a ^ b; }
};
template <class T, class C>
struct Min : Merge {
  static T apply(T a, T b, bool) { return static_cast<C>(a) < static_cast<C>(b) ? a : b; }
};
template <class T, class C>
struct Max : Merge {
  static T apply(T a, T b, bool) { return static_cast<C>(a) > static_cast<C>(b) ? a : b; }
};
template <class T>
struct Exch : Plain {
  static T apply(T, T b, bool) { return b; }
};
template <class T>
struct Inc : Plain {
  static T apply(T a, T b, bool) { return a >= b ? 0 : a + 1; }
};
template <class T>
struct Dec : Plain {
  static T apply(T a, T b, bool) { return a == 0 || a > b ? b : a - 1; }
};
// Single precision in global memory flushes subnormals, in shared memory it does not (PTX manual, atom).
struct AddF32 : Plain {
  static uint32_t apply(uint32_t a, uint32_t b, bool shared) {
    const float x = float_of(a), y = float_of(b);
    return bits_of(shared ? canonical(x + y) : flush(canonical(flush(x) + flush(y))));
  }
};
struct AddF64 : Plain {
  static uint64_t apply(uint64_t a, uint64_t b, bool) { return bits_of(double_of(a) + double_of(b)); }
};
struct AddF16 : Plain {
  static uint16_t apply(uint16_t a, uint16_t b, bool) {
    return static_cast<uint16_t>(float_to_half(half_to_float(a) + half_to_float(b)));
  }
};
struct AddBf16 : Plain {
  static uint16_t apply(uint16_t a, uint16_t b, bool) {
    return static_cast<uint16_t>(float_to_bf16(bf16_to_float(a) + bf16_to_float(b)));
  }
};
template <class H>
struct Pair : Plain {
  static uint32_t apply(uint32_t a, uint32_t b, bool s) {
    return H::apply(static_cast<uint16_t>(a), static_cast<uint16_t>(b), s) |
           (static_cast<uint32_t>(H::apply(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16), s))
            << 16);
  }
};
template <bool Max, bool Bf>
struct ExtremeHalf : Plain {
  static uint16_t apply(uint16_t a, uint16_t b, bool) {
    const float x = Bf ? bf16_to_float(a) : half_to_float(a), y = Bf ? bf16_to_float(b) : half_to_float(b);
    if (x != x) return y != y ? 0x7fff : b;
    if (y != y) return a;
    if (x == y) return ((a & 0x8000) != 0) != Max ? a : b;
    return (x < y) != Max ? a : b;
  }
};

// Compare and swap: b compare, c new value.
template <class T, class R>
struct Cas {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const Resolved how = static_cast<const Resolver*>(i->aux)[M](c, i, i->a, sizeof(T), kAccess);
    if (how == kFault) return nullptr;
    const R *b = lanes_of<R>(c, i->b), *e = lanes_of<R>(c, i->c);
    R* d = lanes_of<R>(c, i->dst);
    for (uint32_t k = M ? c->mask : kFullMask; k; k &= k - 1) {
      const uint32_t l = static_cast<uint32_t>(__builtin_ctz(k));
      T expected = static_cast<T>(b[l]);
      __atomic_compare_exchange_n(reinterpret_cast<T*>(c->ptrs[l]), &expected, static_cast<T>(e[l]), false,
                                  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      if (i->d) d[l] = expected;
    }
    return i + 1;
  }
};

// 16 bytes: extra = d.lo d.hi, a.lo a.hi [, b.lo b.hi]. cmpxchg16b, which every x86-64 of the last 15 years
// has.
__attribute__((target("cx16"), noinline)) unsigned __int128 cas128(unsigned __int128* p,
                                                                   unsigned __int128 expected,
                                                                   unsigned __int128 desired) {
  return __sync_val_compare_and_swap(p, expected, desired);
}
template <bool IsCas>
struct Wide128 {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const Resolved how = static_cast<const Resolver*>(i->aux)[M](c, i, i->a, 16, kAccess);
    if (how == kFault) return nullptr;
    uint64_t* r[6];
    for (uint32_t k = 0; k < (IsCas ? 6u : 4u); ++k) r[k] = lanes_of<uint64_t>(c, i->extra[k]);
    for (uint32_t k = M ? c->mask : kFullMask; k; k &= k - 1) {
      const uint32_t l = static_cast<uint32_t>(__builtin_ctz(k));
      auto* p = reinterpret_cast<unsigned __int128*>(c->ptrs[l]);
      const auto value = [&](uint32_t n) {
        return (static_cast<unsigned __int128>(r[n + 1][l]) << 64) | r[n][l];
      };
      unsigned __int128 old;
      if constexpr (IsCas) {
        old = cas128(p, value(2), value(4));
      } else {
        unsigned __int128 guess;
        std::memcpy(&old, p, 16);
        do {
          guess = old;
          old = cas128(p, guess, value(2));
        } while (old != guess);
      }
      r[0][l] = static_cast<uint64_t>(old);
      r[1][l] = static_cast<uint64_t>(old >> 64);
    }
    return i + 1;
  }
};

template <class T, class R, class F>
void reg(HandlerTable* t, const char* key) {
  add_handler(t, key, &Atomic<T, R, F>::template run<false>, &Atomic<T, R, F>::template run<true>);
}

}  // namespace

void register_atomic(HandlerTable* t) {
  using u16 = uint16_t;
  using u32 = uint32_t;
  using u64 = uint64_t;
  using s32 = int32_t;
  using s64 = int64_t;
  reg<u32, u32, Add<u32>>(t, "atom.add.b32");
  reg<u64, u64, Add<u64>>(t, "atom.add.b64");
  reg<u32, u32, And<u32>>(t, "atom.and.b32");
  reg<u64, u64, And<u64>>(t, "atom.and.b64");
  reg<u32, u32, Or<u32>>(t, "atom.or.b32");
  reg<u64, u64, Or<u64>>(t, "atom.or.b64");
  reg<u32, u32, Xor<u32>>(t, "atom.xor.b32");
  reg<u64, u64, Xor<u64>>(t, "atom.xor.b64");
  reg<u32, u32, Min<u32, u32>>(t, "atom.min.u32");
  reg<u32, u32, Min<u32, s32>>(t, "atom.min.s32");
  reg<u32, u32, Max<u32, u32>>(t, "atom.max.u32");
  reg<u32, u32, Max<u32, s32>>(t, "atom.max.s32");
  reg<u64, u64, Min<u64, u64>>(t, "atom.min.u64");
  reg<u64, u64, Min<u64, s64>>(t, "atom.min.s64");
  reg<u64, u64, Max<u64, u64>>(t, "atom.max.u64");
  reg<u64, u64, Max<u64, s64>>(t, "atom.max.s64");
  reg<u32, u32, Inc<u32>>(t, "atom.inc.b32");
  reg<u32, u32, Dec<u32>>(t, "atom.dec.b32");
  reg<u16, u32, Exch<u16>>(t, "atom.exch.b16");
  reg<u32, u32, Exch<u32>>(t, "atom.exch.b32");
  reg<u64, u64, Exch<u64>>(t, "atom.exch.b64");
  reg<u32, u32, AddF32>(t, "atom.add.f32");
  reg<u64, u64, AddF64>(t, "atom.add.f64");
  reg<u16, u32, AddF16>(t, "atom.add.f16");
  reg<u16, u32, AddBf16>(t, "atom.add.bf16");
  reg<u32, u32, Pair<AddF16>>(t, "atom.add.f16x2");
  reg<u32, u32, Pair<AddBf16>>(t, "atom.add.bf16x2");
  reg<u16, u32, ExtremeHalf<false, false>>(t, "atom.min.f16");
  reg<u16, u32, ExtremeHalf<true, false>>(t, "atom.max.f16");
  reg<u16, u32, ExtremeHalf<false, true>>(t, "atom.min.bf16");
  reg<u16, u32, ExtremeHalf<true, true>>(t, "atom.max.bf16");
  reg<u32, u32, Pair<ExtremeHalf<false, false>>>(t, "atom.min.f16x2");
  reg<u32, u32, Pair<ExtremeHalf<true, false>>>(t, "atom.max.f16x2");
  reg<u32, u32, Pair<ExtremeHalf<false, true>>>(t, "atom.min.bf16x2");
  reg<u32, u32, Pair<ExtremeHalf<true, true>>>(t, "atom.max.bf16x2");
  add_handler(t, "atom.cas.b16", &Cas<u16, u32>::run<false>, &Cas<u16, u32>::run<true>);
  add_handler(t, "atom.cas.b32", &Cas<u32, u32>::run<false>, &Cas<u32, u32>::run<true>);
  add_handler(t, "atom.cas.b64", &Cas<u64, u64>::run<false>, &Cas<u64, u64>::run<true>);
  add_handler(t, "atom.cas.b128", &Wide128<true>::run<false>, &Wide128<true>::run<true>);
  add_handler(t, "atom.exch.b128", &Wide128<false>::run<false>, &Wide128<false>::run<true>);
}

}  // namespace simgpu::exec
