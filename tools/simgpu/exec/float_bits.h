// Number formats as bit patterns: flushing, canonical NaNs, half precision. Included per instruction set (see
// lanes.h).
#pragma once
#include "tools/simgpu/exec/lanes.h"

namespace simgpu::exec::SIMGPU_ISA {

SIMGPU_INLINE uint32_t bits_of(float v) { return __builtin_bit_cast(uint32_t, v); }
SIMGPU_INLINE float float_of(uint32_t v) { return __builtin_bit_cast(float, v); }
SIMGPU_INLINE uint64_t bits_of(double v) { return __builtin_bit_cast(uint64_t, v); }
SIMGPU_INLINE double double_of(uint64_t v) { return __builtin_bit_cast(double, v); }

template <class T>
SIMGPU_INLINE bool is_nan(T v) {
  return v != v;  // NOLINT(misc-redundant-expression): true for NaN only, and one instruction
}

// PTX: single-precision operations give one NaN.
SIMGPU_INLINE float canonical(float v) { return is_nan(v) ? float_of(0x7fffffffu) : v; }
SIMGPU_INLINE double canonical(double v) { return v; }  // double payloads travel, as on the host
SIMGPU_INLINE float flush(float v) {
  const uint32_t b = bits_of(v);
  return (b & 0x7fffffffu) < 0x00800000u ? float_of(b & 0x80000000u) : v;
}
template <bool Ftz>
SIMGPU_INLINE float maybe_flush(float v) {
  if constexpr (Ftz)
    return flush(v);
  else
    return v;
}
SIMGPU_INLINE float saturate(float v) {
  v = v > 0.0f ? v : 0.0f;
  return v < 1.0f ? v : 1.0f;
}  // NaN gives +0
SIMGPU_INLINE double saturate(double v) {
  v = v > 0.0 ? v : 0.0;
  return v < 1.0 ? v : 1.0;
}

SIMGPU_INLINE float half_to_float(uint32_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
  const float normal = float_of((rest << 13) + (112u << 23));
  const float tiny = static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f;
  const float special = float_of(0x7f800000u | (rest << 13));
  float r = rest < 0x0400u ? tiny : normal;
  r = rest >= 0x7c00u ? special : r;
  return float_of(bits_of(r) | sign);
}
// Round to nearest even; NaN is 0x7fff.
SIMGPU_INLINE uint32_t float_to_half(float v) {
  const uint32_t b = bits_of(v), sign = (b >> 16) & 0x8000u, a = b & 0x7fffffffu;
  const uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - (112u << 23)) >> 13;
  const uint32_t tiny = bits_of(float_of(a) + 0.5f) - bits_of(0.5f);
  uint32_t r = a < 0x38800000u ? tiny : normal;
  r = a >= 0x477ff000u ? 0x7c00u : r;
  r |= sign;
  return a > 0x7f800000u ? 0x7fffu : r;
}
SIMGPU_INLINE float bf16_to_float(uint32_t h) { return float_of(h << 16); }
SIMGPU_INLINE uint32_t float_to_bf16(float v) {
  const uint32_t b = bits_of(v);
  const uint32_t r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return (b & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : r;
}
// Double to float keeping a sticky bit, so that a second rounding to 16 bits is the correct single rounding.
SIMGPU_INLINE float round_to_odd(double v) {
  const float f = static_cast<float>(v);
  const double back = static_cast<double>(f);
  uint32_t b = bits_of(f);
  const double mag = v < 0 ? -v : v, bmag = back < 0 ? -back : back;
  b = bmag > mag ? b - 1 : b;  // toward zero; from infinity this is the largest finite
  b = (back != v && v == v) ? (b | 1u) : b;
  return (v - v != 0.0) ? f : float_of(b);  // infinities and NaN pass
}

}  // namespace simgpu::exec::SIMGPU_ISA
