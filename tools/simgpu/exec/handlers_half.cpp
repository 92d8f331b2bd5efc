// Half precision and bfloat16, single and packed. Computed in single (fma: in double) precision and rounded
// once.
#include "tools/simgpu/exec/float_functions.h"

namespace simgpu::exec::SIMGPU_ISA {
namespace {

// Immediate flags, set by compile_float.cpp.
enum : uint64_t { kSat = 1, kRelu = 2, kFtz = 4, kNan = 8, kXorSign = 16 };

struct F16 {
  static constexpr uint32_t kTop = 0x7c00u;  // smallest special magnitude
  SIMGPU_INLINE float up(uint32_t v) { return half_to_float(v & 0xffffu); }
  SIMGPU_INLINE uint32_t down(float v) { return float_to_half(v); }
  SIMGPU_INLINE uint32_t flush_bits(uint32_t v) { return (v & 0x7fffu) < 0x0400u ? v & 0x8000u : v; }
};
struct B16 {
  static constexpr uint32_t kTop = 0x7f80u;
  SIMGPU_INLINE float up(uint32_t v) { return bf16_to_float(v & 0xffffu); }
  SIMGPU_INLINE uint32_t down(float v) { return float_to_bf16(v); }
  SIMGPU_INLINE uint32_t flush_bits(uint32_t v) { return v; }  // no .ftz form exists
};

template <class H>
SIMGPU_INLINE uint32_t finish(float r, uint64_t flags) {
  r = (flags & kRelu) && r < 0.0f ? 0.0f : r;
  r = (flags & kSat) ? saturate(r) : r;
  const uint32_t b = H::down(r);
  return (flags & kFtz) ? H::flush_bits(b) : b;
}
template <class H>
SIMGPU_INLINE float in(uint32_t v, uint64_t flags) {
  v &= 0xffffu;
  return H::up((flags & kFtz) ? H::flush_bits(v) : v);
}
// a * b + c with the last bit odd when inexact, so that rounding it to 16 bits is the single correct
// rounding.
SIMGPU_INLINE float fused_odd(float a, float b, float c) {
  const double p = static_cast<double>(a) * static_cast<double>(b),
               d = static_cast<double>(c);  // product exact
  const double s = p + d, back = s - p, error = (p - (s - back)) + (d - back);
  uint64_t bits = bits_of(s);
  bits = (error != 0 && (error < 0) != (s < 0)) ? bits - 1 : bits;
  bits = error != 0 ? bits | 1 : bits;
  return round_to_odd(s - s == 0.0 ? double_of(bits) : s);
}
template <class H, bool Max>
SIMGPU_INLINE uint32_t extreme(uint32_t a, uint32_t b, uint64_t flags) {
  a &= 0xffffu;
  b &= 0xffffu;
  if (flags & kFtz) {
    a = H::flush_bits(a);
    b = H::flush_bits(b);
  }
  const uint32_t sign = (a ^ b) & 0x8000u;
  if (flags & kXorSign) {
    a &= 0x7fffu;
    b &= 0x7fffu;
  }
  const bool na = (a & 0x7fffu) > H::kTop, nb = (b & 0x7fffu) > H::kTop;
  // Ordered integers: -0 below +0.
  const int32_t x = (a & 0x8000u) ? -static_cast<int32_t>(a & 0x7fffu) - 1 : static_cast<int32_t>(a);
  const int32_t y = (b & 0x8000u) ? -static_cast<int32_t>(b & 0x7fffu) - 1 : static_cast<int32_t>(b);
  uint32_t r = (x < y) != Max ? a : b;
  r = na ? b : nb ? a : r;
  r = (na && nb) || ((flags & kNan) && (na || nb)) ? 0x7fffu : r;
  if (flags & kXorSign) r = (r & 0x7fffu) > H::kTop ? r : r | sign;
  return r;
}

template <class H, class F, bool Packed, int N>
struct HalfOp {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<uint32_t>(c, i->dst);
    const auto* a = row<uint32_t>(c, i->a);
    const auto* b = N > 1 ? row<uint32_t>(c, i->b) : a;
    const auto* e = N > 2 ? row<uint32_t>(c, i->c) : a;
    [[maybe_unused]] const uint32_t m = c->mask;
    const uint64_t flags = i->imm;
    SIMGPU_LANES {
      uint32_t v = F::template apply<H>(a[l], b[l], e[l], flags);
      if constexpr (Packed) v |= F::template apply<H>(a[l] >> 16, b[l] >> 16, e[l] >> 16, flags) << 16;
      put<M, uint32_t>(d, l, m, v);
    }
    return i + 1;
  }
};
struct OpAdd {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t b, uint32_t, uint64_t f) {
    return finish<H>(in<H>(a, f) + in<H>(b, f), f);
  }
};
struct OpSub {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t b, uint32_t, uint64_t f) {
    return finish<H>(in<H>(a, f) - in<H>(b, f), f);
  }
};
struct OpMul {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t b, uint32_t, uint64_t f) {
    return finish<H>(in<H>(a, f) * in<H>(b, f), f);
  }
};
struct OpFma {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t b, uint32_t c, uint64_t f) {
    return finish<H>(fused_odd(in<H>(a, f), in<H>(b, f), in<H>(c, f)), f);
  }
};
struct OpMin {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t b, uint32_t, uint64_t f) {
    return extreme<H, false>(a, b, f);
  }
};
struct OpMax {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t b, uint32_t, uint64_t f) {
    return extreme<H, true>(a, b, f);
  }
};
struct OpNeg {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t, uint32_t, uint64_t f) {
    a &= 0xffffu;
    return ((f & kFtz) ? H::flush_bits(a) : a) ^ 0x8000u;
  }
};
struct OpAbs {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t, uint32_t, uint64_t f) {
    a &= 0xffffu;
    return ((f & kFtz) ? H::flush_bits(a) : a) & 0x7fffu;
  }
};
struct OpEx2 {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t, uint32_t, uint64_t f) {
    return finish<H>(exp2_approx(in<H>(a, f)), f);
  }
};
struct OpTanh {
  template <class H>
  SIMGPU_INLINE uint32_t apply(uint32_t a, uint32_t, uint32_t, uint64_t f) {
    return finish<H>(tanh_approx(in<H>(a, f)), f);
  }
};

template <class F, int N>
void reg(HandlerTable* t, const char* f16, const char* f16x2, const char* bf16, const char* bf16x2) {
  add_handler(t, f16, &HalfOp<F16, F, false, N>::template run<false>,
              &HalfOp<F16, F, false, N>::template run<true>);
  add_handler(t, f16x2, &HalfOp<F16, F, true, N>::template run<false>,
              &HalfOp<F16, F, true, N>::template run<true>);
  add_handler(t, bf16, &HalfOp<B16, F, false, N>::template run<false>,
              &HalfOp<B16, F, false, N>::template run<true>);
  add_handler(t, bf16x2, &HalfOp<B16, F, true, N>::template run<false>,
              &HalfOp<B16, F, true, N>::template run<true>);
}

}  // namespace

void register_half(HandlerTable* t) {
#define HALF(F, N, op) reg<F, N>(t, op ".f16", op ".f16x2", op ".bf16", op ".bf16x2")
  HALF(OpAdd, 2, "add");
  HALF(OpSub, 2, "sub");
  HALF(OpMul, 2, "mul");
  HALF(OpFma, 3, "fma");
  HALF(OpMin, 2, "min");
  HALF(OpMax, 2, "max");
  HALF(OpNeg, 1, "neg");
  HALF(OpAbs, 1, "abs");
  HALF(OpEx2, 1, "ex2");
  HALF(OpTanh, 1, "tanh");
}

}  // namespace simgpu::exec::SIMGPU_ISA
