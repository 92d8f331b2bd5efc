// Lane loops for handlers. Included only by translation units that are compiled once per instruction set;
// everything is in the namespace SIMGPU_ISA so that the copies never mix.
#pragma once
#include <cstdint>
#include <cstring>

#include "tools/simgpu/exec/core.h"

#ifndef SIMGPU_ISA
#define SIMGPU_ISA isa_base
#endif
#define SIMGPU_LANES _Pragma("GCC ivdep") for (uint32_t l = 0; l < kLanes; ++l)
#define SIMGPU_INLINE static inline __attribute__((always_inline))

namespace simgpu::exec::SIMGPU_ISA {

template <class T>
SIMGPU_INLINE T* row(Ctx* c, uint32_t slot) {
  return static_cast<T*>(__builtin_assume_aligned(c->base[slot >> kBaseShift] + (slot & kOffsetMask), 128));
}

// Half-precision values travel as bits so that lambdas can be overloaded on them.
struct Half {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

// Storage: 8- and 16-bit values live zero-extended in 32-bit rows.
template <class T>
struct Cell {
  using Store = T;
  SIMGPU_INLINE T get(Store s) { return s; }
  SIMGPU_INLINE Store put(T v) { return v; }
};
template <class T, class U>
struct NarrowCell {
  using Store = uint32_t;
  SIMGPU_INLINE T get(Store s) { return static_cast<T>(s); }
  SIMGPU_INLINE Store put(T v) { return static_cast<U>(v); }
};
template <>
struct Cell<uint16_t> : NarrowCell<uint16_t, uint16_t> {};
template <>
struct Cell<int16_t> : NarrowCell<int16_t, uint16_t> {};
template <>
struct Cell<uint8_t> : NarrowCell<uint8_t, uint8_t> {};
template <>
struct Cell<int8_t> : NarrowCell<int8_t, uint16_t> {};  // sign-extended to the 16-bit register
template <>
struct Cell<Half> {
  using Store = uint32_t;
  SIMGPU_INLINE Half get(Store s) { return {static_cast<uint16_t>(s)}; }
  SIMGPU_INLINE Store put(Half v) { return v.bits; }
};
template <>
struct Cell<Bf16> {
  using Store = uint32_t;
  SIMGPU_INLINE Bf16 get(Store s) { return {static_cast<uint16_t>(s)}; }
  SIMGPU_INLINE Store put(Bf16 v) { return v.bits; }
};
template <class T>
using Store = typename Cell<T>::Store;

template <bool M, class T>
SIMGPU_INLINE void put(Store<T>* d, uint32_t l, uint32_t m, T v) {
  if constexpr (M)
    d[l] = ((m >> l) & 1) ? Cell<T>::put(v) : d[l];
  else
    d[l] = Cell<T>::put(v);
}
template <bool M>
SIMGPU_INLINE void put_pred(Ctx* c, uint32_t index, uint32_t value) {
  if constexpr (M)
    c->pred[index] = (c->pred[index] & ~c->mask) | (value & c->mask);
  else
    c->pred[index] = value;
}

template <class F, class D, class A>
struct Unary {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<Store<D>>(c, i->dst);
    const auto* a = row<Store<A>>(c, i->a);
    [[maybe_unused]] uint32_t m = c->mask;
    SIMGPU_LANES put<M, D>(d, l, m, F{}(Cell<A>::get(a[l])));
    return i + 1;
  }
};
template <class F, class D, class A, class B>
struct Binary {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<Store<D>>(c, i->dst);
    const auto* a = row<Store<A>>(c, i->a);
    const auto* b = row<Store<B>>(c, i->b);
    [[maybe_unused]] uint32_t m = c->mask;
    SIMGPU_LANES put<M, D>(d, l, m, F{}(Cell<A>::get(a[l]), Cell<B>::get(b[l])));
    return i + 1;
  }
};
template <class F, class D, class A, class B, class C>
struct Ternary {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<Store<D>>(c, i->dst);
    const auto* a = row<Store<A>>(c, i->a);
    const auto* b = row<Store<B>>(c, i->b);
    const auto* e = row<Store<C>>(c, i->c);
    [[maybe_unused]] uint32_t m = c->mask;
    SIMGPU_LANES put<M, D>(d, l, m, F{}(Cell<A>::get(a[l]), Cell<B>::get(b[l]), Cell<C>::get(e[l])));
    return i + 1;
  }
};
// With the instruction's immediate as a last argument.
template <class F, class D, class A, class B, class C>
struct TernaryImm {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<Store<D>>(c, i->dst);
    const auto* a = row<Store<A>>(c, i->a);
    const auto* b = row<Store<B>>(c, i->b);
    const auto* e = row<Store<C>>(c, i->c);
    [[maybe_unused]] uint32_t m = c->mask;
    const uint64_t imm = i->imm;
    SIMGPU_LANES put<M, D>(d, l, m, F{}(Cell<A>::get(a[l]), Cell<B>::get(b[l]), Cell<C>::get(e[l]), imm));
    return i + 1;
  }
};
template <class F, class A, class B>
struct Compare {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const auto* a = row<Store<A>>(c, i->a);
    const auto* b = row<Store<B>>(c, i->b);
    uint32_t r = 0;
    SIMGPU_LANES r |= F{}(Cell<A>::get(a[l]), Cell<B>::get(b[l])) ? (1u << l) : 0u;
    put_pred<M>(c, i->dst, r);
    return i + 1;
  }
};

template <class D, class A, class F>
void un(HandlerTable* t, const char* key, F) {
  add_handler(t, key, &Unary<F, D, A>::template run<false>, &Unary<F, D, A>::template run<true>);
}
template <class D, class A, class B, class F>
void bin(HandlerTable* t, const char* key, F) {
  add_handler(t, key, &Binary<F, D, A, B>::template run<false>, &Binary<F, D, A, B>::template run<true>);
}
template <class D, class A, class B, class C, class F>
void ter(HandlerTable* t, const char* key, F) {
  add_handler(t, key, &Ternary<F, D, A, B, C>::template run<false>,
              &Ternary<F, D, A, B, C>::template run<true>);
}
template <class D, class A, class B, class C, class F>
void ter_imm(HandlerTable* t, const char* key, F) {
  add_handler(t, key, &TernaryImm<F, D, A, B, C>::template run<false>,
              &TernaryImm<F, D, A, B, C>::template run<true>);
}
template <class A, class B, class F>
void cmp(HandlerTable* t, const char* key, F) {
  add_handler(t, key, &Compare<F, A, B>::template run<false>, &Compare<F, A, B>::template run<true>);
}

}  // namespace simgpu::exec::SIMGPU_ISA
