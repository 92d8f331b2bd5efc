// wmma fragments, ldmatrix, stmatrix, movmatrix.
#include <cstring>

#include "tools/simgpu/exec/fragments.h"
#include "tools/simgpu/exec/registry.h"

namespace simgpu::exec {
namespace {

template <class T>
T* lanes_of(Ctx* c, uint32_t slot) {
  return reinterpret_cast<T*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

template <bool Load>
const Inst* fragment(Ctx* c, const Inst* i) {
  const auto& f = *static_cast<const FragmentAccess*>(i->aux);
  const FragmentOp& o = *f.op;
  const uint32_t bytes = matrix_bits(o.type) / 8, per_reg = o.type == MatrixType::f64 ? 1 : 4 / bytes;
  const uint64_t* base = lanes_of<uint64_t>(c, i->a);
  const uint32_t* stride = lanes_of<uint32_t>(c, i->b);
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!((c->mask >> l) & 1)) continue;
    for (uint32_t e = 0; e < o.count; ++e) {
      const uint32_t at = o.at[l * o.count + e], r = at / o.cols, q = at % o.cols;
      const uint64_t index = o.column_major ? static_cast<uint64_t>(q) * stride[l] + r
                                            : static_cast<uint64_t>(r) * stride[l] + q;
      uint8_t* p =
          checked_pointer(c, i, f.window, base[l] + i->imm + index * bytes, bytes, l, Load ? kRead : kWrite);
      if (!p) return nullptr;
      uint8_t* reg = o.type == MatrixType::f64
                         ? reinterpret_cast<uint8_t*>(lanes_of<uint64_t>(c, i->extra[e]) + l)
                         : reinterpret_cast<uint8_t*>(lanes_of<uint32_t>(c, i->extra[e / per_reg]) + l) +
                               (e % per_reg) * bytes;
      if constexpr (Load)
        std::memcpy(reg, p, bytes);
      else
        std::memcpy(p, reg, bytes);
    }
  }
  return i + 1;
}

// Rows of 8 half-words: lane 8 * m + r holds the address of row r of matrix m.
template <bool Load>
const Inst* rows(Ctx* c, const Inst* i) {
  const auto& f = *static_cast<const MatrixRows*>(i->aux);
  const uint64_t* base = lanes_of<uint64_t>(c, i->a);
  for (uint32_t m = 0; m < f.count; ++m) {
    uint8_t* p[8];
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t l = m * 8 + r;
      p[r] = checked_pointer(c, i, f.window, base[l] + i->imm, 16, l, Load ? kRead : kWrite);
      if (!p[r]) return nullptr;
    }
    uint32_t* reg = lanes_of<uint32_t>(c, i->extra[m]);
    for (uint32_t l = 0; l < kLanes; ++l) {
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t r = f.transposed ? l % 4 * 2 + j : l / 4, q = f.transposed ? l / 4 : l % 4 * 2 + j;
        uint8_t* half = reinterpret_cast<uint8_t*>(reg + l) + 2 * j;
        if constexpr (Load)
          std::memcpy(half, p[r] + 2 * q, 2);
        else
          std::memcpy(p[r] + 2 * q, half, 2);
      }
    }
  }
  return i + 1;
}

const Inst* movmatrix(Ctx* c, const Inst* i) {  // transpose of an 8 x 8 matrix held two elements a lane
  uint16_t m[8][8];
  const uint32_t* a = lanes_of<uint32_t>(c, i->a);
  for (uint32_t l = 0; l < kLanes; ++l)
    for (uint32_t j = 0; j < 2; ++j) m[l / 4][l % 4 * 2 + j] = static_cast<uint16_t>(a[l] >> (16 * j));
  uint32_t* d = lanes_of<uint32_t>(c, i->dst);
  for (uint32_t l = 0; l < kLanes; ++l)
    d[l] = m[l % 4 * 2][l / 4] | (static_cast<uint32_t>(m[l % 4 * 2 + 1][l / 4]) << 16);
  return i + 1;
}

}  // namespace

void register_fragment(HandlerTable* t) {
  add_handler(t, "wmma.load", &fragment<true>, &fragment<true>);
  add_handler(t, "wmma.store", &fragment<false>, &fragment<false>);
  add_handler(t, "ldmatrix", &rows<true>, &rows<true>);
  add_handler(t, "stmatrix", &rows<false>, &rows<false>);
  add_handler(t, "movmatrix", &movmatrix, &movmatrix);
}

}  // namespace simgpu::exec
