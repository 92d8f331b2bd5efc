// Conversions, rounding to nearest or by truncation. cvt is lowered into chains of these
// (compile_convert.cpp).
#include <type_traits>

#include "tools/simgpu/exec/float_bits.h"

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

// Clamping conversion of an integral (or truncated) float. NaN: 0, or the top bit where the source or the
// result is 64 bits wide.
template <class I, class F>
SIMGPU_INLINE I to_integer(F v) {
  constexpr bool is_signed = static_cast<I>(-1) < I{0};
  constexpr bool wide_nan = sizeof(F) == 8 || sizeof(I) == 8;
  constexpr I lowest = is_signed ? static_cast<I>(u64{1} << (sizeof(I) * 8 - 1)) : I{0};
  constexpr I highest =
      is_signed ? static_cast<I>(~(u64{1} << (sizeof(I) * 8 - 1))) : static_cast<I>(~u64{0});
  constexpr F limit = static_cast<F>(is_signed ? 1.0 : 2.0) *
                      static_cast<F>(u64{1} << (sizeof(I) * 8 - 1));  // first value too large
  constexpr F bottom = is_signed ? -limit : F{0};
  // What the host converts in one instruction.
  using Through =
      std::conditional_t<(sizeof(I) < 4 || (sizeof(I) == 4 && is_signed)), s32,
                         std::conditional_t<sizeof(I) == 4, s64, std::conditional_t<is_signed, s64, u64>>>;
  const bool inside = v > bottom - F{1} && v < limit;
  const F safe = inside && (v >= bottom || is_signed) ? v : F{0};
  I r = static_cast<I>(static_cast<Through>(safe));
  r = v >= limit ? highest : r;
  r = v <= bottom ? lowest : r;
  if constexpr (wide_nan) r = is_nan(v) ? static_cast<I>(u64{1} << (sizeof(I) * 8 - 1)) : r;
  return r;
}

template <class T>
SIMGPU_INLINE T nearest_even(T v) {
  // |v| below 2^(mantissa): adding and taking away that power rounds to even.
  constexpr T big = sizeof(T) == 4 ? static_cast<T>(0x1p23) : static_cast<T>(0x1p52);
  if constexpr (sizeof(T) == 4) {
    const float mag = float_of(bits_of(v) & 0x7fffffffu);
    const float r = (mag + big) - big;
    return mag < big ? float_of(bits_of(r) | (bits_of(v) & 0x80000000u)) : v;
  } else {
    const double mag = double_of(bits_of(v) & 0x7fffffffffffffffull);
    const double r = (mag + big) - big;
    return mag < big ? double_of(bits_of(r) | (bits_of(v) & 0x8000000000000000ull)) : v;
  }
}
template <class T>
SIMGPU_INLINE T with_sign_of(T r, T v) {
  if constexpr (sizeof(T) == 4)
    return float_of((bits_of(r) & 0x7fffffffu) | (bits_of(v) & 0x80000000u));
  else
    return double_of((bits_of(r) & 0x7fffffffffffffffull) | (bits_of(v) & 0x8000000000000000ull));
}
template <class T>
SIMGPU_INLINE T round_down(T v) {
  const T r = nearest_even(v);
  return with_sign_of(r > v ? r - 1 : r, v);
}
template <class T>
SIMGPU_INLINE T round_up(T v) {
  const T r = nearest_even(v);
  return with_sign_of(r < v ? r + 1 : r, v);
}
template <class T>
SIMGPU_INLINE T round_zero(T v) {
  const T r = nearest_even(v);
  const T mr = r < 0 ? -r : r, mv = v < 0 ? -v : v;
  return with_sign_of(mr > mv ? mr - 1 : mr, v);
}

template <class T>
void rounding(HandlerTable* t, const char* ni, const char* mi, const char* pi, const char* zi) {
  un<T, T>(t, ni, [](T v) { return canonical(nearest_even(v)); });
  un<T, T>(t, mi, [](T v) { return canonical(round_down(v)); });
  un<T, T>(t, pi, [](T v) { return canonical(round_up(v)); });
  un<T, T>(t, zi, [](T v) { return canonical(round_zero(v)); });
}

// Clamp an integer held in S (sign- or zero-extended) to a narrower type.
template <class D, class S>
SIMGPU_INLINE D clamp_to(S v) {
  constexpr bool ds = static_cast<D>(-1) < D{0}, ss = static_cast<S>(-1) < S{0};
  constexpr D hi = ds ? static_cast<D>(~(u64{1} << (sizeof(D) * 8 - 1))) : static_cast<D>(~u64{0});
  constexpr D lo = ds ? static_cast<D>(u64{1} << (sizeof(D) * 8 - 1)) : D{0};
  if constexpr (ss) {
    if (v < 0) {
      if constexpr (!ds)
        return 0;
      else
        return static_cast<s64>(v) < static_cast<s64>(lo) ? lo : static_cast<D>(v);
    }
  }
  return static_cast<u64>(v) > static_cast<u64>(hi) ? hi : static_cast<D>(v);
}

u64 odd_from(u64 magnitude, bool negative) {
  double r;
  if (magnitude >> 53) {
    const u32 shift = 11 - static_cast<u32>(__builtin_clzll(magnitude));
    const u64 kept = magnitude >> shift;
    const u64 sticky = (kept << shift) != magnitude;
    r = static_cast<double>(kept | sticky) * static_cast<double>(u64{1} << shift);
  } else {
    r = static_cast<double>(magnitude);
  }
  return bits_of(negative ? -r : r);
}

}  // namespace

void register_convert(HandlerTable* t) {
  un<s8, float>(t, "f2i.s8.f32", [](float v) { return to_integer<s8>(v); });
  un<u8, float>(t, "f2i.u8.f32", [](float v) { return to_integer<u8>(v); });
  un<s16, float>(t, "f2i.s16.f32", [](float v) { return to_integer<s16>(v); });
  un<u16, float>(t, "f2i.u16.f32", [](float v) { return to_integer<u16>(v); });
  un<s32, float>(t, "f2i.s32.f32", [](float v) { return to_integer<s32>(v); });
  un<u32, float>(t, "f2i.u32.f32", [](float v) { return to_integer<u32>(v); });
  un<s64, float>(t, "f2i.s64.f32", [](float v) { return to_integer<s64>(v); });
  un<u64, float>(t, "f2i.u64.f32", [](float v) { return to_integer<u64>(v); });
  un<s8, double>(t, "f2i.s8.f64", [](double v) { return to_integer<s8>(v); });
  un<u8, double>(t, "f2i.u8.f64", [](double v) { return to_integer<u8>(v); });
  un<s16, double>(t, "f2i.s16.f64", [](double v) { return to_integer<s16>(v); });
  un<u16, double>(t, "f2i.u16.f64", [](double v) { return to_integer<u16>(v); });
  un<s32, double>(t, "f2i.s32.f64", [](double v) { return to_integer<s32>(v); });
  un<u32, double>(t, "f2i.u32.f64", [](double v) { return to_integer<u32>(v); });
  un<s64, double>(t, "f2i.s64.f64", [](double v) { return to_integer<s64>(v); });
  un<u64, double>(t, "f2i.u64.f64", [](double v) { return to_integer<u64>(v); });
  un<float, s32>(t, "i2f.f32.s32", [](s32 v) { return static_cast<float>(v); });
  un<float, u32>(t, "i2f.f32.u32", [](u32 v) { return static_cast<float>(v); });
  un<float, s64>(t, "i2f.f32.s64", [](s64 v) { return static_cast<float>(v); });
  un<float, u64>(t, "i2f.f32.u64", [](u64 v) { return static_cast<float>(v); });
  un<double, s32>(t, "i2f.f64.s32", [](s32 v) { return static_cast<double>(v); });
  un<double, u32>(t, "i2f.f64.u32", [](u32 v) { return static_cast<double>(v); });
  un<double, s64>(t, "i2f.f64.s64", [](s64 v) { return static_cast<double>(v); });
  un<double, u64>(t, "i2f.f64.u64", [](u64 v) { return static_cast<double>(v); });
  un<u64, s64>(t, "i2f.odd.f64.s64",
               [](s64 v) { return odd_from(v < 0 ? 0 - static_cast<u64>(v) : static_cast<u64>(v), v < 0); });
  un<u64, u64>(t, "i2f.odd.f64.u64", [](u64 v) { return odd_from(v, false); });
  un<double, float>(t, "cvt.f64.f32", [](float v) { return static_cast<double>(v); });
  un<float, double>(t, "cvt.f32.f64", [](double v) { return canonical(static_cast<float>(v)); });
  un<float, double>(t, "cvt.odd.f32.f64", [](double v) { return round_to_odd(v); });
  un<float, float>(t, "flush.f32", [](float v) { return flush(v); });
  un<float, float>(t, "sat.f32", [](float v) { return saturate(v); });
  un<double, double>(t, "sat.f64", [](double v) { return saturate(v); });
  rounding<float>(t, "round.rni.f32", "round.rmi.f32", "round.rpi.f32", "round.rzi.f32");
  rounding<double>(t, "round.rni.f64", "round.rmi.f64", "round.rpi.f64", "round.rzi.f64");
  un<float, u32>(t, "cvt.f32.f16", [](u32 v) { return canonical(half_to_float(v & 0xffffu)); });
  un<u32, float>(t, "cvt.f16.f32", [](float v) { return float_to_half(v); });
  un<float, u32>(t, "cvt.f32.bf16", [](u32 v) { return canonical(bf16_to_float(v)); });
  un<u32, float>(t, "cvt.bf16.f32", [](float v) { return float_to_bf16(v); });
#define CLAMP(D, DN)                                                       \
  un<D, s32>(t, "clamp." DN ".s32", [](s32 v) { return clamp_to<D>(v); }); \
  un<D, u32>(t, "clamp." DN ".u32", [](u32 v) { return clamp_to<D>(v); }); \
  un<D, s64>(t, "clamp." DN ".s64", [](s64 v) { return clamp_to<D>(v); }); \
  un<D, u64>(t, "clamp." DN ".u64", [](u64 v) { return clamp_to<D>(v); })
  CLAMP(s8, "s8");
  CLAMP(u8, "u8");
  CLAMP(s16, "s16");
  CLAMP(u16, "u16");
  CLAMP(s32, "s32");
  CLAMP(u32, "u32");
  CLAMP(s64, "s64");
  CLAMP(u64, "u64");
}

}  // namespace simgpu::exec::SIMGPU_ISA
