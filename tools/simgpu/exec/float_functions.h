// The approximate functions. Included per instruction set (see lanes.h).
#pragma once
#include "tools/simgpu/exec/float_bits.h"

namespace simgpu::exec::SIMGPU_ISA {

using u32 = uint32_t;
using u64 = uint64_t;
using s32 = int32_t;
using s64 = int64_t;

// Double-precision evaluation keeps every approximate function well inside its documented error and makes all
// instruction sets agree bit for bit.
SIMGPU_INLINE float exp2_approx(float x) {
  double v = static_cast<double>(x);
  v = v > 1000.0 ? 1000.0 : v;
  v = v < -1000.0 ? -1000.0 : v;
  const double shift = 0x1.8p52;
  const double shifted = v + shift;        // integer part in the low mantissa bits
  const double f = v - (shifted - shift);  // [-0.5, 0.5]
  double p = 1.5252733804059838e-05;
  p = p * f + 1.5403530393381608e-04;
  p = p * f + 1.3333558146428443e-03;
  p = p * f + 9.6181291076284772e-03;
  p = p * f + 5.5504108664821580e-02;
  p = p * f + 2.4022650695910071e-01;
  p = p * f + 6.9314718055994531e-01;
  p = p * f + 1.0;
  const double scale = double_of((bits_of(shifted) + 1023) << 52);
  const float r = static_cast<float>(p * scale);
  return x != x ? float_of(0x7fffffffu) : r;
}
SIMGPU_INLINE float log2_approx(float x) {
  const u64 b = bits_of(static_cast<double>(x));
  // Exponent so that the mantissa is in [sqrt(1/2), sqrt(2)).
  const u64 k = b - 0x3fe6a09e667f3bcdull;
  const s64 e = static_cast<s64>(k) >> 52;
  const double m = double_of(b - (static_cast<u64>(e) << 52));
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  const double exponent = static_cast<double>(static_cast<s32>(e));
  float r = static_cast<float>(exponent + s * p * 2.8853900817779268);
  r = x == 0.0f ? -__builtin_inff() : r;
  r = x == __builtin_inff() ? x : r;
  return (x < 0.0f || x != x) ? float_of(0x7fffffffu) : r;
}
SIMGPU_INLINE double sine_poly(double r) {
  const double z = r * r;
  double p = -2.5052108385441718e-08;
  p = p * z + 2.7557319223985893e-06;
  p = p * z - 1.9841269841269841e-04;
  p = p * z + 8.3333333333333333e-03;
  p = p * z - 1.6666666666666667e-01;
  return r + r * z * p;
}
SIMGPU_INLINE double cosine_poly(double r) {
  const double z = r * r;
  double p = -2.7557319223985888e-07;
  p = p * z + 2.4801587301587302e-05;
  p = p * z - 1.3888888888888889e-03;
  p = p * z + 4.1666666666666667e-02;
  p = p * z - 0.5;
  return 1.0 + z * p;
}
SIMGPU_INLINE float sincos_approx(float x, double quarter) {
  const double v = static_cast<double>(x), shift = 0x1.8p52;
  const double n = (v * 0.63661977236758134 + shift) - shift;
  double r = (v - n * 1.5707963267948966) - n * 6.1232339957367660e-17;
  r = r > 0.7853981633974484 ? 0.7853981633974484
                             : r;  // beyond the range of exact reduction: stay in [-1, 1]
  r = r < -0.7853981633974484 ? -0.7853981633974484 : r;
  const double q = n + quarter;
  const u64 k = bits_of(q + shift) & 3;  // quadrant
  const double s = sine_poly(r), c = cosine_poly(r);
  double w = (k & 1) ? c : s;
  w = (k & 2) ? -w : w;
  const float f = static_cast<float>(w);
  return x - x != 0.0f ? float_of(0x7fffffffu) : f;
}
SIMGPU_INLINE float tanh_approx(float x) {
  const float a = float_of(bits_of(x) & 0x7fffffffu);
  const double e = static_cast<double>(exp2_approx(a > 32.0f ? -92.3f : -2.8853900817779268f * a));
  const double big = (1.0 - e) / (1.0 + e), z = static_cast<double>(x) * x;
  const double small = static_cast<double>(a) * (1.0 - z * (1.0 / 3 - z * (2.0 / 15)));
  const float r = static_cast<float>(a < 0.0625f ? small : big);
  return x != x ? float_of(0x7fffffffu) : float_of(bits_of(r) | (bits_of(x) & 0x80000000u));
}

}  // namespace simgpu::exec::SIMGPU_ISA
