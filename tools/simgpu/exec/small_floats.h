// Formats of at most 19 significant bits: how a float is rounded into them and read back. Plain functions,
// exact.
#pragma once
#include <cstdint>

namespace simgpu::exec {

enum class SmallFormat : uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0 };

// rounding: 0 nearest even, 1 down, 2 up, 3 zero, 4 nearest, ties away. Result in the low bits (tf32: a
// float's bits).
uint32_t to_small(float v, SmallFormat f, uint32_t rounding, bool relu, bool satfinite);
float from_small(uint32_t bits, SmallFormat f);

}  // namespace simgpu::exec
