// Directed rounding through the host's control register, and the formats below 16 bits. Compiled once, with
// the compiler told that the rounding mode may change.
#include <cmath>

#include "tools/simgpu/exec/float_bits.h"
#include "tools/simgpu/exec/registry.h"
#include "tools/simgpu/exec/small_floats.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace simgpu::exec {
namespace {

using namespace SIMGPU_ISA;

template <class T>
T* lanes_of(Ctx* c, uint32_t slot) {
  return reinterpret_cast<T*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

// The operation runs in a function of its own between the two writes of the control register.
class RoundingScope {
 public:
  explicit RoundingScope(uint32_t mode) : saved_(_mm_getcsr()) {
    _mm_setcsr((saved_ & ~0x6000u) | (mode << 13));
  }
  ~RoundingScope() { _mm_setcsr(saved_); }

 private:
  uint32_t saved_;
};

template <class T>
T finish(T v, uint64_t flags) {
  if constexpr (sizeof(T) == 4) {
    if (flags & 4) v = flush(v);
  }
  if (flags & 8) return saturate(v);
  return canonical(v);
}
template <class T>
T in(T v, uint64_t flags) {
  if constexpr (sizeof(T) == 4) {
    if (flags & 4) v = flush(v);
  }
  return v;
}

template <class F, class D, class A>
__attribute__((noinline)) void compute(const A* a, const A* b, const A* e, D* out, uint64_t flags) {
  for (uint32_t l = 0; l < kLanes; ++l)
    out[l] = F::template apply<D>(in(a[l], flags), in(b[l], flags), in(e[l], flags));
}
template <class F, class D, class A, int N>
struct Rounded {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const A* a = lanes_of<A>(c, i->a);
    const A* b = N > 1 ? lanes_of<A>(c, i->b) : a;
    const A* e = N > 2 ? lanes_of<A>(c, i->c) : a;
    D* d = lanes_of<D>(c, i->dst);
    D out[kLanes];
    {
      RoundingScope scope(static_cast<uint32_t>(i->imm & 3));
      compute<F, D, A>(a, b, e, out, i->imm);
    }
    for (uint32_t l = 0; l < kLanes; ++l)
      if (!M || ((c->mask >> l) & 1)) d[l] = finish(out[l], i->imm);
    return i + 1;
  }
};
struct Add {
  template <class T>
  static T apply(T a, T b, T) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b, T) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b, T) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b, T) {
    return a / b;
  }
};
struct Fma {
  template <class T>
  static T apply(T a, T b, T c) {
    if constexpr (sizeof(T) == 4)
      return __builtin_fmaf(a, b, c);
    else
      return __builtin_fma(a, b, c);
  }
};
struct Rcp {
  template <class T>
  static T apply(T a, T, T) {
    return T{1} / a;
  }
};
struct Sqrt {
  template <class T>
  static T apply(T a, T, T) {
    if constexpr (sizeof(T) == 4)
      return __builtin_sqrtf(a);
    else
      return __builtin_sqrt(a);
  }
};

template <class D, class A>
__attribute__((noinline)) void convert(const A* a, D* out) {
  for (uint32_t l = 0; l < kLanes; ++l) out[l] = static_cast<D>(a[l]);
}
template <class D, class A>
struct Converted {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    D* d = lanes_of<D>(c, i->dst);
    D out[kLanes];
    {
      RoundingScope scope(static_cast<uint32_t>(i->imm & 3));
      convert<D, A>(lanes_of<A>(c, i->a), out);
    }
    for (uint32_t l = 0; l < kLanes; ++l)
      if (!M || ((c->mask >> l) & 1)) d[l] = canonical(out[l]);
    return i + 1;
  }
};

template <bool M>
const Inst* to_small_format(Ctx* c, const Inst* i) {
  const float* a = lanes_of<float>(c, i->a);
  uint32_t* d = lanes_of<uint32_t>(c, i->dst);
  const auto format = static_cast<SmallFormat>(i->imm & 0xff);
  for (uint32_t l = 0; l < kLanes; ++l)
    if (!M || ((c->mask >> l) & 1))
      d[l] = to_small(a[l], format, (i->imm >> 8) & 0xff, (i->imm >> 16) & 1, (i->imm >> 17) & 1);
  return i + 1;
}
template <bool M>
const Inst* from_small_format(Ctx* c, const Inst* i) {
  const uint32_t* a = lanes_of<uint32_t>(c, i->a);
  float* d = lanes_of<float>(c, i->dst);
  for (uint32_t l = 0; l < kLanes; ++l)
    if (!M || ((c->mask >> l) & 1)) d[l] = from_small(a[l], static_cast<SmallFormat>(i->imm));
  return i + 1;
}

template <class F, int N>
void reg(HandlerTable* t, const char* f32, const char* f64) {
  add_handler(t, f32, &Rounded<F, float, float, N>::template run<false>,
              &Rounded<F, float, float, N>::template run<true>);
  add_handler(t, f64, &Rounded<F, double, double, N>::template run<false>,
              &Rounded<F, double, double, N>::template run<true>);
}
template <class D, class A>
void reg_convert(HandlerTable* t, const char* key) {
  add_handler(t, key, &Converted<D, A>::template run<false>, &Converted<D, A>::template run<true>);
}

}  // namespace

void register_rounding(HandlerTable* t) {
  reg<Add, 2>(t, "rnd.add.f32", "rnd.add.f64");
  reg<Sub, 2>(t, "rnd.sub.f32", "rnd.sub.f64");
  reg<Mul, 2>(t, "rnd.mul.f32", "rnd.mul.f64");
  reg<Div, 2>(t, "rnd.div.f32", "rnd.div.f64");
  reg<Fma, 3>(t, "rnd.fma.f32", "rnd.fma.f64");
  reg<Rcp, 1>(t, "rnd.rcp.f32", "rnd.rcp.f64");
  reg<Sqrt, 1>(t, "rnd.sqrt.f32", "rnd.sqrt.f64");
  reg_convert<float, double>(t, "rnd.cvt.f32.f64");
  reg_convert<float, int32_t>(t, "rnd.i2f.f32.s32");
  reg_convert<float, uint32_t>(t, "rnd.i2f.f32.u32");
  reg_convert<float, int64_t>(t, "rnd.i2f.f32.s64");
  reg_convert<float, uint64_t>(t, "rnd.i2f.f32.u64");
  reg_convert<double, int64_t>(t, "rnd.i2f.f64.s64");
  reg_convert<double, uint64_t>(t, "rnd.i2f.f64.u64");
  add_handler(t, "cvt.small.f32", &to_small_format<false>, &to_small_format<true>);
  add_handler(t, "cvt.f32.small", &from_small_format<false>, &from_small_format<true>);
}

}  // namespace simgpu::exec
