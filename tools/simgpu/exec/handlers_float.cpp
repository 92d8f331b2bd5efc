// Single and double precision handlers, rounding to nearest. Other rounding modes: handlers_rounding.cpp.
#include <type_traits>

#include "tools/simgpu/exec/float_functions.h"

namespace simgpu::exec::SIMGPU_ISA {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;
using s32 = int32_t;
using s64 = int64_t;

template <class T, bool Ftz, bool Sat>
T finish(T v) {
  if constexpr (std::is_same_v<T, float>) v = maybe_flush<Ftz>(v);
  if constexpr (Sat) return saturate(v);
  return canonical(v);
}
template <class T, bool Ftz>
T in(T v) {
  if constexpr (std::is_same_v<T, float>)
    return maybe_flush<Ftz>(v);
  else
    return v;
}
SIMGPU_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIMGPU_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// keys: add sub mul fma
template <class T, bool Ftz, bool Sat>
void arithmetic(HandlerTable* t, const char* add, const char* sub, const char* mul, const char* fma) {
  bin<T, T, T>(t, add, [](T a, T b) { return finish<T, Ftz, Sat>(in<T, Ftz>(a) + in<T, Ftz>(b)); });
  bin<T, T, T>(t, sub, [](T a, T b) { return finish<T, Ftz, Sat>(in<T, Ftz>(a) - in<T, Ftz>(b)); });
  bin<T, T, T>(t, mul, [](T a, T b) { return finish<T, Ftz, Sat>(in<T, Ftz>(a) * in<T, Ftz>(b)); });
  ter<T, T, T, T>(t, fma, [](T a, T b, T c) {
    return finish<T, Ftz, Sat>(fused(in<T, Ftz>(a), in<T, Ftz>(b), in<T, Ftz>(c)));
  });
}

template <class T>
SIMGPU_INLINE T nan_value() {
  if constexpr (std::is_same_v<T, float>)
    return float_of(0x7fffffffu);
  else
    return double_of(0x7fffffffffffffffull);
}
// The number wins over a NaN; -0 is smaller than +0.
template <class T>
SIMGPU_INLINE T min_number(T a, T b) {
  const bool pick_a = a < b || (a == b && (bits_of(a) > bits_of(b)));
  T r = pick_a ? a : b;
  r = is_nan(b) ? a : r;
  return is_nan(r) ? nan_value<T>() : r;
}
template <class T>
SIMGPU_INLINE T max_number(T a, T b) {
  const bool pick_a = a > b || (a == b && (bits_of(a) < bits_of(b)));
  T r = pick_a ? a : b;
  r = is_nan(b) ? a : r;
  return is_nan(r) ? nan_value<T>() : r;
}
template <class T, bool Ftz, bool Nan, bool Xor>
void extrema(HandlerTable* t, const char* mn, const char* mx) {
  bin<T, T, T>(t, mn, [](T a, T b) {
    a = in<T, Ftz>(a);
    b = in<T, Ftz>(b);
    using U = std::conditional_t<sizeof(T) == 8, u64, u32>;
    [[maybe_unused]] constexpr U sign_bit = U{1} << (sizeof(T) * 8 - 1);
    [[maybe_unused]] const U sign = (bits_of(a) ^ bits_of(b)) & sign_bit;
    if constexpr (Xor) {
      a = __builtin_bit_cast(T, static_cast<U>(bits_of(a) & ~sign_bit));
      b = __builtin_bit_cast(T, static_cast<U>(bits_of(b) & ~sign_bit));
    }
    T r = min_number<T>(a, b);
    if constexpr (Xor) r = is_nan(r) ? r : __builtin_bit_cast(T, static_cast<U>(bits_of(r) | sign));
    if constexpr (Nan) r = (is_nan(a) || is_nan(b)) ? nan_value<T>() : r;
    return r;
  });
  bin<T, T, T>(t, mx, [](T a, T b) {
    a = in<T, Ftz>(a);
    b = in<T, Ftz>(b);
    using U = std::conditional_t<sizeof(T) == 8, u64, u32>;
    [[maybe_unused]] constexpr U sign_bit = U{1} << (sizeof(T) * 8 - 1);
    [[maybe_unused]] const U sign = (bits_of(a) ^ bits_of(b)) & sign_bit;
    if constexpr (Xor) {
      a = __builtin_bit_cast(T, static_cast<U>(bits_of(a) & ~sign_bit));
      b = __builtin_bit_cast(T, static_cast<U>(bits_of(b) & ~sign_bit));
    }
    T r = max_number<T>(a, b);
    if constexpr (Xor) r = is_nan(r) ? r : __builtin_bit_cast(T, static_cast<U>(bits_of(r) | sign));
    if constexpr (Nan) r = (is_nan(a) || is_nan(b)) ? nan_value<T>() : r;
    return r;
  });
}

template <class T, bool Ftz>
void comparisons(HandlerTable* t, const char* const (&k)[14]) {
#define CMP(n, expr)                \
  cmp<T, T>(t, k[n], [](T a, T b) { \
    a = in<T, Ftz>(a);              \
    b = in<T, Ftz>(b);              \
    return expr;                    \
  })
  CMP(0, a == b);
  CMP(1, a != b && a == a && b == b);
  CMP(2, a < b);
  CMP(3, a <= b);
  CMP(4, a > b);
  CMP(5, a >= b);
  CMP(6, !(a < b) && !(a > b));
  CMP(7, a != b);
  CMP(8, !(a >= b));
  CMP(9, !(a > b));
  CMP(10, !(a <= b));
  CMP(11, !(a < b));
  CMP(12, a == a && b == b);
  CMP(13, a != a || b != b);
#undef CMP
}
#define CMP_KEYS(T)                                                                                    \
  {                                                                                                    \
    "setp.eq." T, "setp.ne." T, "setp.lt." T, "setp.le." T, "setp.gt." T, "setp.ge." T, "setp.equ." T, \
        "setp.neu." T, "setp.ltu." T, "setp.leu." T, "setp.gtu." T, "setp.geu." T, "setp.num." T,      \
        "setp.nan." T                                                                                  \
  }

SIMGPU_INLINE float div_approx(float a, float b) {
  const float m = float_of(bits_of(b) & 0x7fffffffu);
  const float r = canonical(a / b);
  const bool huge = m > 0x1p126f && m < __builtin_inff();
  const float zero = float_of((bits_of(a) ^ bits_of(b)) & 0x80000000u);
  const float special = a - a != 0.0f ? float_of(0x7fffffffu) : zero;
  return huge ? special : r;
}
// Upper word only, both ways, flushing subnormals: the gross approximations that library code refines.
double upper_word(double v) { return double_of(bits_of(v) & 0xffffffff00000000ull); }
double flush64(double v) {
  return (bits_of(v) & 0x7ff0000000000000ull) == 0 ? double_of(bits_of(v) & 0x8000000000000000ull) : v;
}

template <bool Ftz>
void approximations(HandlerTable* t, const char* const (&k)[12]) {
#define UN(n, expr)                           \
  un<float, float>(t, k[n], [](float x) {     \
    x = maybe_flush<Ftz>(x);                  \
    return maybe_flush<Ftz>(canonical(expr)); \
  })
  UN(0, exp2_approx(x));
  UN(1, log2_approx(x));
  UN(2, sincos_approx(x, 0.0));
  UN(3, sincos_approx(x, 1.0));
  UN(4, 1.0f / x);
  UN(5, static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))));
  UN(6, __builtin_sqrtf(x));
  UN(7, tanh_approx(x));
  UN(10, __builtin_sqrtf(x));
  UN(11, 1.0f / x);
#undef UN
  bin<float, float, float>(t, k[8], [](float a, float b) {
    return maybe_flush<Ftz>(div_approx(maybe_flush<Ftz>(a), maybe_flush<Ftz>(b)));
  });
  bin<float, float, float>(t, k[9], [](float a, float b) {
    return maybe_flush<Ftz>(canonical(maybe_flush<Ftz>(a) / maybe_flush<Ftz>(b)));
  });
}

}  // namespace

void register_float(HandlerTable* t) {
  arithmetic<float, false, false>(t, "add.f32", "sub.f32", "mul.f32", "fma.f32");
  arithmetic<float, true, false>(t, "add.ftz.f32", "sub.ftz.f32", "mul.ftz.f32", "fma.ftz.f32");
  arithmetic<float, false, true>(t, "add.sat.f32", "sub.sat.f32", "mul.sat.f32", "fma.sat.f32");
  arithmetic<float, true, true>(t, "add.ftz.sat.f32", "sub.ftz.sat.f32", "mul.ftz.sat.f32",
                                "fma.ftz.sat.f32");
  arithmetic<double, false, false>(t, "add.f64", "sub.f64", "mul.f64", "fma.f64");
  extrema<float, false, false, false>(t, "min.f32", "max.f32");
  extrema<float, true, false, false>(t, "min.ftz.f32", "max.ftz.f32");
  extrema<float, false, true, false>(t, "min.NaN.f32", "max.NaN.f32");
  extrema<float, true, true, false>(t, "min.ftz.NaN.f32", "max.ftz.NaN.f32");
  extrema<float, false, false, true>(t, "min.xorsign.f32", "max.xorsign.f32");
  extrema<float, true, false, true>(t, "min.ftz.xorsign.f32", "max.ftz.xorsign.f32");
  extrema<float, false, true, true>(t, "min.NaN.xorsign.f32", "max.NaN.xorsign.f32");
  extrema<float, true, true, true>(t, "min.ftz.NaN.xorsign.f32", "max.ftz.NaN.xorsign.f32");
  extrema<double, false, false, false>(t, "min.f64", "max.f64");
  comparisons<float, false>(t, CMP_KEYS("f32"));
  comparisons<float, true>(t, CMP_KEYS("ftz.f32"));
  comparisons<double, false>(t, CMP_KEYS("f64"));
  bin<float, float, float>(t, "div.f32", [](float a, float b) { return canonical(a / b); });
  bin<float, float, float>(t, "div.ftz.f32",
                           [](float a, float b) { return flush(canonical(flush(a) / flush(b))); });
  bin<double, double, double>(t, "div.f64", [](double a, double b) { return a / b; });
  un<double, double>(t, "rcp.f64", [](double a) { return 1.0 / a; });
  un<double, double>(t, "sqrt.f64", [](double a) { return __builtin_sqrt(a); });
  un<double, double>(t, "rcp.approx.ftz.f64",
                     [](double a) { return upper_word(flush64(1.0 / flush64(upper_word(a)))); });
  un<double, double>(t, "rsqrt.approx.ftz.f64", [](double a) {
    return upper_word(flush64(1.0 / __builtin_sqrt(flush64(upper_word(a)))));
  });
  un<double, double>(t, "rsqrt.approx.f64", [](double a) { return 1.0 / __builtin_sqrt(a); });
  approximations<false>(t, {"ex2.approx.f32", "lg2.approx.f32", "sin.approx.f32", "cos.approx.f32",
                            "rcp.approx.f32", "rsqrt.approx.f32", "sqrt.approx.f32", "tanh.approx.f32",
                            "div.approx.f32", "div.full.f32", "sqrt.f32", "rcp.f32"});
  approximations<true>(
      t, {"ex2.approx.ftz.f32", "lg2.approx.ftz.f32", "sin.approx.ftz.f32", "cos.approx.ftz.f32",
          "rcp.approx.ftz.f32", "rsqrt.approx.ftz.f32", "sqrt.approx.ftz.f32", "tanh.approx.ftz.f32",
          "div.approx.ftz.f32", "div.full.ftz.f32", "sqrt.ftz.f32", "rcp.ftz.f32"});
  un<u32, u32>(t, "neg.f32", [](u32 a) { return a ^ 0x80000000u; });
  un<u32, u32>(t, "abs.f32", [](u32 a) { return a & 0x7fffffffu; });
  un<float, float>(t, "neg.ftz.f32", [](float a) { return float_of(bits_of(flush(a)) ^ 0x80000000u); });
  un<float, float>(t, "abs.ftz.f32", [](float a) { return float_of(bits_of(flush(a)) & 0x7fffffffu); });
  un<u64, u64>(t, "neg.f64", [](u64 a) { return a ^ 0x8000000000000000ull; });
  un<u64, u64>(t, "abs.f64", [](u64 a) { return a & 0x7fffffffffffffffull; });
  bin<u32, u32, u32>(t, "copysign.f32", [](u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); });
  bin<u64, u64, u64>(t, "copysign.f64",
                     [](u64 a, u64 b) { return (a & 0x8000000000000000ull) | (b & 0x7fffffffffffffffull); });
  cmp<float, float>(t, "testp.finite.f32",
                    [](float a, float) { return (bits_of(a) & 0x7f800000u) != 0x7f800000u; });
  cmp<float, float>(t, "testp.infinite.f32",
                    [](float a, float) { return (bits_of(a) & 0x7fffffffu) == 0x7f800000u; });
  cmp<float, float>(t, "testp.number.f32", [](float a, float) { return a == a; });
  cmp<float, float>(t, "testp.notanumber.f32", [](float a, float) { return a != a; });
  cmp<float, float>(t, "testp.normal.f32", [](float a, float) {
    const u32 e = bits_of(a) & 0x7f800000u;
    return e != 0 && e != 0x7f800000u;
  });
  cmp<float, float>(t, "testp.subnormal.f32", [](float a, float) {
    return (bits_of(a) & 0x7f800000u) == 0 && (bits_of(a) & 0x7fffffu) != 0;
  });
  cmp<double, double>(t, "testp.finite.f64", [](double a, double) { return a - a == 0.0; });
  cmp<double, double>(t, "testp.infinite.f64",
                      [](double a, double) { return (bits_of(a) << 1) == 0xffe0000000000000ull; });
  cmp<double, double>(t, "testp.number.f64", [](double a, double) { return a == a; });
  cmp<double, double>(t, "testp.notanumber.f64", [](double a, double) { return a != a; });
  cmp<double, double>(t, "testp.normal.f64", [](double a, double) {
    const u64 e = bits_of(a) & 0x7ff0000000000000ull;
    return e != 0 && e != 0x7ff0000000000000ull;
  });
  cmp<double, double>(t, "testp.subnormal.f64", [](double a, double) {
    return (bits_of(a) & 0x7ff0000000000000ull) == 0 && (bits_of(a) << 1) != 0;
  });
}

}  // namespace simgpu::exec::SIMGPU_ISA
