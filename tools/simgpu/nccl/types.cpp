#include "tools/simgpu/nccl/types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace simgpu::nccl {

namespace {

// Rounds a float to a small format of `exponent` and `mantissa` bits, to nearest even. fp8 saturates to the
// largest finite value (cuda_fp8.h's conversions with __NV_SATFINITE); half and bf16 overflow to infinity.
template <int kExponent, int kMantissa, bool kSaturate, bool kHasInf>
struct Small {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static float load(uint32_t raw) {
    const uint32_t sign = raw >> (kBits - 1) & 1, e = raw >> kMantissa & ((1u << kExponent) - 1),
                   m = raw & ((1u << kMantissa) - 1);
    float value;
    if (e == (1u << kExponent) - 1 && kHasInf)
      value = m ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    else if (!kHasInf && e == (1u << kExponent) - 1 && m == (1u << kMantissa) - 1)
      value = std::numeric_limits<float>::quiet_NaN();  // e4m3: all ones
    else if (e == 0)
      value = std::ldexp(static_cast<float>(m), 1 - kBias - kMantissa);
    else
      value = std::ldexp(static_cast<float>(m | 1u << kMantissa), static_cast<int>(e) - kBias - kMantissa);
    return sign ? -value : value;
  }
  static uint32_t store(float value) {
    const uint32_t sign = std::signbit(value) ? 1u << (kBits - 1) : 0, all = (1u << kExponent) - 1;
    const uint32_t infinity = all << kMantissa,
                   largest = kHasInf ? infinity - 1 : (infinity | ((1u << kMantissa) - 2));
    if (std::isnan(value))
      return kHasInf ? (kBits == 16 ? 0x7FFFu : infinity | ((1u << kMantissa) - 1))
                     : (infinity | ((1u << kMantissa) - 1));
    const float magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | (kSaturate ? largest : infinity);
    if (magnitude == 0) return sign;
    int exponent;
    std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
    const int unit = std::max(exponent - 1, 1 - kBias) - kMantissa;  // weight of the last bit
    // nearbyint rounds to even in the default mode; scaling by a power of two is exact.
    const double steps = std::nearbyint(std::ldexp(static_cast<double>(magnitude), -unit));
    const double rounded = std::ldexp(steps, unit);
    uint32_t raw;
    int e;
    std::frexp(rounded, &e);
    if (rounded == 0)
      raw = 0;
    else if (e - 1 < 1 - kBias)
      raw = static_cast<uint32_t>(steps);
    else {
      const uint32_t biased = static_cast<uint32_t>(e - 1 + kBias);
      const uint32_t mantissa =
          static_cast<uint32_t>(std::ldexp(rounded, kMantissa - (e - 1))) & ((1u << kMantissa) - 1);
      raw = biased > all ? infinity : biased << kMantissa | mantissa;
    }
    if (raw > largest) raw = kSaturate ? largest : infinity;
    return sign | raw;
  }
};

struct Half {
  uint16_t raw;
  using Format = Small<5, 10, false, true>;
};
struct Bfloat {
  uint16_t raw;
  using Format = Small<8, 7, false, true>;
};
struct E4m3 {
  uint8_t raw;
  using Format = Small<4, 3, true, false>;
};
struct E5m2 {
  uint8_t raw;
  using Format = Small<5, 2, true, true>;
};

template <class T>
auto widen(T v) {
  if constexpr (std::is_arithmetic_v<T>)
    return v;
  else
    return T::Format::load(v.raw);
}
template <class T, class W>
T narrow(W v) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(v);
  else
    return T{static_cast<decltype(T::raw)>(T::Format::store(v))};
}

template <class T>
T combine(Reduction op, T a, T b) {
  const auto x = widen(a), y = widen(b);
  if constexpr (std::is_integral_v<T>) {  // wraps: through unsigned, where overflow is defined
    using U = std::make_unsigned_t<T>;
    if (op == Reduction::sum) return static_cast<T>(static_cast<U>(static_cast<U>(x) + static_cast<U>(y)));
    if (op == Reduction::prod)
      return static_cast<T>(static_cast<U>(static_cast<uint64_t>(static_cast<U>(x)) * static_cast<U>(y)));
  }
  switch (op) {
    case Reduction::sum:
      return narrow<T>(x + y);
    case Reduction::prod:
      return narrow<T>(x * y);
    case Reduction::max:
      if constexpr (!std::is_integral_v<T>)
        return narrow<T>(std::fmax(x, y));
      else
        return std::max(a, b);
    case Reduction::min:
      if constexpr (!std::is_integral_v<T>)
        return narrow<T>(std::fmin(x, y));
      else
        return std::min(a, b);
  }
  return a;
}

// Calls f with a value of the C++ type behind `type`.
template <class F>
void visit(ncclDataType_t type, F&& f) {
  switch (type) {
    case ncclInt8:
      return f(int8_t{});
    case ncclUint8:
      return f(uint8_t{});
    case ncclInt32:
      return f(int32_t{});
    case ncclUint32:
      return f(uint32_t{});
    case ncclInt64:
      return f(int64_t{});
    case ncclUint64:
      return f(uint64_t{});
    case ncclFloat16:
      return f(Half{});
    case ncclFloat32:
      return f(float{});
    case ncclFloat64:
      return f(double{});
    case ncclBfloat16:
      return f(Bfloat{});
    case ncclFloat8e4m3:
      return f(E4m3{});
    case ncclFloat8e5m2:
      return f(E5m2{});
    default:
      return;
  }
}

}  // namespace

size_t type_bytes(ncclDataType_t type) {
  size_t n = 0;
  visit(type, [&](auto v) { n = sizeof v; });
  return n;
}

const char* type_name(ncclDataType_t type) {
  static constexpr const char* kNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                           "int64",   "uint64",   "float16",    "float32",
                                           "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return type >= 0 && type < ncclNumTypes ? kNames[type] : "?";
}

bool is_integer(ncclDataType_t type) { return type >= ncclInt8 && type <= ncclUint64; }

void reduce(ncclDataType_t type, Reduction op, void* accumulator, const void* value, size_t count) {
  visit(type, [&](auto v) {
    using T = decltype(v);
    T* a = static_cast<T*>(accumulator);
    const T* b = static_cast<const T*>(value);
    for (size_t i = 0; i < count; ++i) a[i] = combine(op, a[i], b[i]);
  });
}

void multiply(ncclDataType_t type, void* data, const void* scalar, size_t count) {
  visit(type, [&](auto v) {
    using T = decltype(v);
    T s;
    std::memcpy(&s, scalar, sizeof s);
    T* a = static_cast<T*>(data);
    for (size_t i = 0; i < count; ++i) a[i] = combine(Reduction::prod, a[i], s);
  });
}

void divide(ncclDataType_t type, void* data, int ranks, size_t count) {
  visit(type, [&](auto v) {
    using T = decltype(v);
    if constexpr (std::is_integral_v<T>) {
      T* a = static_cast<T*>(data);
      for (size_t i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] / static_cast<T>(ranks));
    }
  });
}

void reciprocal(ncclDataType_t type, int ranks, void* scalar) {
  visit(type, [&](auto v) {
    using T = decltype(v);
    T s{};
    if constexpr (std::is_same_v<T, double>)
      s = 1.0 / ranks;
    else if constexpr (!std::is_integral_v<T>)
      s = narrow<T>(1.0f / static_cast<float>(ranks));
    std::memcpy(scalar, &s, sizeof s);
  });
}

}  // namespace simgpu::nccl
