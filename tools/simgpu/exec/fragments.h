// Descriptions attached to instructions that move fragments, asynchronous copies and the like.
#pragma once
#include "tools/simgpu/exec/matrix.h"
#include "tools/simgpu/exec/worker.h"

namespace simgpu::exec {

struct FragmentAccess {
  const FragmentOp* op = nullptr;
  Window window = Window::generic;
};
struct MatrixRows {
  uint32_t count = 1;
  bool transposed = false;
  Window window = Window::shared;
};
struct AsyncCopy {
  uint64_t dst_offset = 0, src_offset = 0, barrier_offset = 0;
  uint32_t bytes = 0;  // 0: in a register (bulk)
  bool has_size = false, has_ignore = false, ignore_negated = false;
  Window dst = Window::shared, src = Window::global;
  bool has_barrier = false;
  Window barrier = Window::shared;
};
// Scalar and packed video instructions.
struct VideoOp {
  enum Kind : uint8_t { add, sub, absdiff, min, max, shl, shr, mad, set, avrg } kind = add;
  enum Second : uint8_t { none, plus, second_min, second_max, merge } second = none;
  uint8_t lanes = 1;  // 1 scalar, 2 or 4 packed
  bool d_signed = false, a_signed = false, b_signed = false, saturate = false, wrap = true;
  int8_t a_component = -1, b_component = -1, d_component = -1;
  char a_selector = 0, b_selector = 0, d_selector = 0;
  uint8_t compare = 0;  // 0 eq 1 ne 2 lt 3 le 4 gt 5 ge
  uint8_t scale = 0;    // mad: shift
  bool plus_one = false, negate_product = false, negate_c = false;
};
struct TextureOp {
  int geometry = 1;
  bool layered = false, float_coords = true, level = false, wide = false;
  uint32_t coords = 1;             // extra: d0..d3 (n_dst), [layer], coordinates, [lod]
  uint32_t n_dst = 4, gather = 0;  // gather: component + 1 of tld4
  uint32_t bytes = 0;              // surfaces: element bytes per component
  uint32_t elements = 1;
  bool write = false;
  int clamp = 0;  // 0 trap 1 clamp 2 zero
  std::string query;
};

}  // namespace simgpu::exec
