#include "tools/simgpu/exec/small_floats.h"

#include <cmath>
#include <cstring>

namespace simgpu::exec {

namespace {
struct Layout {
  int exponent_bits, mantissa_bits, bias;
  bool has_inf, has_nan;
  uint32_t nan;
  uint32_t max_finite;
};
constexpr Layout layout(SmallFormat f) {
  switch (f) {
    case SmallFormat::f16:
      return {5, 10, 15, true, true, 0x7fff, 0x7bff};
    case SmallFormat::bf16:
      return {8, 7, 127, true, true, 0x7fff, 0x7f7f};
    case SmallFormat::tf32:
      return {8, 10, 127, true, true, 0x3ffff, 0x3fbff};
    case SmallFormat::e4m3:
      return {4, 3, 7, false, true, 0x7f, 0x7e};
    case SmallFormat::e5m2:
      return {5, 2, 15, true, true, 0x7f, 0x7b};
    case SmallFormat::e2m3:
      return {2, 3, 1, false, false, 0x1f, 0x1f};
    case SmallFormat::e3m2:
      return {3, 2, 3, false, false, 0x1f, 0x1f};
    case SmallFormat::e2m1:
      return {2, 1, 1, false, false, 0x7, 0x7};
    case SmallFormat::ue8m0:
      return {8, 0, 127, false, true, 0xff, 0xfe};
  }
  return {};
}
uint32_t bits_of(float v) {
  uint32_t b;
  std::memcpy(&b, &v, 4);
  return b;
}
float float_of(uint32_t b) {
  float v;
  std::memcpy(&v, &b, 4);
  return v;
}
}  // namespace

uint32_t to_small(float v, SmallFormat f, uint32_t rounding, bool relu, bool satfinite) {
  const Layout k = layout(f);
  if (f == SmallFormat::ue8m0) {  // a power of two: the sign is dropped
    if (v != v) return k.nan;
    const double m = std::fabs(static_cast<double>(v));
    if (m == 0) return 0;
    if (std::isinf(m)) return satfinite ? 0xfe : 0xff;
    int e;
    const double frac = std::frexp(m, &e);  // m = frac * 2^e, frac in [0.5, 1)
    int power = e - 1;
    if (rounding == 2 && frac > 0.5) power += 1;
    if (power < -127) power = -127;
    if (power > 127) return satfinite ? 0xfe : 0xff;
    return static_cast<uint32_t>(power + 127);
  }
  const uint32_t sign_shift = static_cast<uint32_t>(k.exponent_bits + k.mantissa_bits);
  const bool negative = bits_of(v) >> 31;
  const auto place = [&](uint32_t magnitude) -> uint32_t {
    if (f == SmallFormat::tf32) return (magnitude << 13) | (negative ? 0x80000000u : 0);
    return magnitude | (negative ? 1u << sign_shift : 0);
  };
  if (v != v) {
    if (!k.has_nan) return k.max_finite;  // positive maximum
    return f == SmallFormat::tf32 ? 0x7fffffffu : k.nan;
  }
  if (relu && negative) return 0;
  const double m = std::fabs(static_cast<double>(v));
  if (std::isinf(m))
    return place(k.has_inf && !satfinite ? ((1u << k.exponent_bits) - 1) << k.mantissa_bits
                                         : (satfinite || !k.has_nan ? k.max_finite : k.nan));
  if (m == 0) return place(0);
  int e;
  std::frexp(m, &e);
  int exponent = e - 1;  // m = 1.x * 2^exponent
  const int min_exponent = 1 - k.bias;
  if (exponent < min_exponent) exponent = min_exponent;             // subnormal spacing
  const double scaled = std::ldexp(m, k.mantissa_bits - exponent);  // exact
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  bool up = false;
  switch (rounding) {
    case 0:
      up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) != 0);
      break;
    case 1:
      up = negative && rest > 0;
      break;
    case 2:
      up = !negative && rest > 0;
      break;
    case 4:
      up = rest >= 0.5;
      break;
    default:
      break;
  }
  if (up) whole += 1;
  uint64_t mantissa = static_cast<uint64_t>(whole);
  if (mantissa >> (k.mantissa_bits + 1)) {
    mantissa >>= 1;
    exponent += 1;
  }
  uint32_t magnitude;
  if (mantissa >> k.mantissa_bits)
    magnitude = (static_cast<uint32_t>(exponent + k.bias) << k.mantissa_bits) |
                (static_cast<uint32_t>(mantissa) & ((1u << k.mantissa_bits) - 1));
  else
    magnitude = static_cast<uint32_t>(mantissa);  // subnormal: exponent field 0
  if (magnitude > k.max_finite) {
    if (satfinite || (!k.has_inf && !k.has_nan))
      magnitude = k.max_finite;
    else if (k.has_inf) {
      const bool to_inf =
          rounding == 0 || rounding == 4 || (rounding == 1 && negative) || (rounding == 2 && !negative);
      magnitude = to_inf ? ((1u << k.exponent_bits) - 1) << k.mantissa_bits : k.max_finite;
    } else
      magnitude = k.nan;
  }
  return place(magnitude);
}

float from_small(uint32_t b, SmallFormat f) {
  const Layout k = layout(f);
  if (f == SmallFormat::ue8m0)
    return b == 0xff ? float_of(0x7fffffffu)
                     : static_cast<float>(std::ldexp(1.0, static_cast<int>(b & 0xff) - 127));
  if (f == SmallFormat::tf32) return float_of(b & 0xffffe000u);
  const uint32_t magnitude_bits = static_cast<uint32_t>(k.exponent_bits + k.mantissa_bits);
  const bool negative = (b >> magnitude_bits) & 1;
  const uint32_t magnitude = b & ((1u << magnitude_bits) - 1);
  const uint32_t e = magnitude >> k.mantissa_bits, man = magnitude & ((1u << k.mantissa_bits) - 1);
  if (k.has_inf && e == (1u << k.exponent_bits) - 1)
    return man ? float_of(0x7fffffffu) : (negative ? -HUGE_VALF : HUGE_VALF);
  if (k.has_nan && !k.has_inf && magnitude == k.nan) return float_of(0x7fffffffu);
  const double m = e == 0 ? std::ldexp(static_cast<double>(man), 1 - k.bias - k.mantissa_bits)
                          : std::ldexp(static_cast<double>(man | (1u << k.mantissa_bits)),
                                       static_cast<int>(e) - k.bias - k.mantissa_bits);
  return static_cast<float>(negative ? -m : m);
}

}  // namespace simgpu::exec
