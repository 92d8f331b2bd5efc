// Matrix multiply-accumulate: fragments are gathered into small matrices, multiplied, scattered back.
// Products of the narrow formats are exact in double precision and are summed there, then rounded once.
#include "tools/simgpu/exec/float_bits.h"
#include "tools/simgpu/exec/matrix.h"
#include "tools/simgpu/exec/small_floats.h"

namespace simgpu::exec::SIMGPU_ISA {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;

SIMGPU_INLINE double small8(u32 b, bool e5m2) {
  // e5m2 is the upper byte of a half; e4m3 has no infinity.
  if (e5m2) return static_cast<double>(half_to_float((b & 0xff) << 8));
  return static_cast<double>(from_small(b & 0xff, SmallFormat::e4m3));
}

// Element e of a lane whose registers start at slots[0].
double real_element(Ctx* c, const u32* slots, MatrixType t, u32 lane, u32 e) {
  switch (t) {
    case MatrixType::f16:
      return static_cast<double>(
          half_to_float((row<u32>(c, slots[e / 2])[lane] >> (16 * (e % 2))) & 0xffffu));
    case MatrixType::bf16:
      return static_cast<double>(
          bf16_to_float((row<u32>(c, slots[e / 2])[lane] >> (16 * (e % 2))) & 0xffffu));
    case MatrixType::tf32:
      return static_cast<double>(float_of(row<u32>(c, slots[e])[lane] & 0xffffe000u));
    case MatrixType::f32:
      return static_cast<double>(row<float>(c, slots[e])[lane]);
    case MatrixType::f64:
      return row<double>(c, slots[e])[lane];
    case MatrixType::e4m3:
      return small8(row<u32>(c, slots[e / 4])[lane] >> (8 * (e % 4)), false);
    case MatrixType::e5m2:
      return small8(row<u32>(c, slots[e / 4])[lane] >> (8 * (e % 4)), true);
    default:
      return 0;
  }
}
int32_t integer_element(Ctx* c, const u32* slots, MatrixType t, u32 lane, u32 e) {
  switch (t) {
    case MatrixType::s8:
      return static_cast<int8_t>(row<u32>(c, slots[e / 4])[lane] >> (8 * (e % 4)));
    case MatrixType::u8:
      return static_cast<uint8_t>(row<u32>(c, slots[e / 4])[lane] >> (8 * (e % 4)));
    case MatrixType::s4:
      return static_cast<int32_t>(row<u32>(c, slots[e / 8])[lane] << (28 - 4 * (e % 8))) >> 28;
    case MatrixType::u4:
      return static_cast<int32_t>((row<u32>(c, slots[e / 8])[lane] >> (4 * (e % 8))) & 15u);
    case MatrixType::s32:
      return row<int32_t>(c, slots[e])[lane];
    default:
      return 0;
  }
}

// extra: d registers, then a, b, c.
const Inst* mma_real(Ctx* c, const Inst* i) {
  const auto& o = *static_cast<const MatrixOp*>(i->aux);
  const u32 *ds = i->extra, *as = ds + o.d_regs, *bs = as + o.a_regs, *cs = bs + o.b_regs;
  alignas(64) double a[32 * 32], b[32 * 32], r[32 * 32];
  for (u32 l = 0; l < kLanes; ++l) {
    for (u32 e = 0; e < o.a_count; ++e) a[o.a_at[l * o.a_count + e]] = real_element(c, as, o.a_type, l, e);
    for (u32 e = 0; e < o.b_count; ++e) b[o.b_at[l * o.b_count + e]] = real_element(c, bs, o.b_type, l, e);
    for (u32 e = 0; e < o.c_count; ++e) r[o.c_at[l * o.c_count + e]] = real_element(c, cs, o.c_type, l, e);
  }
  for (u32 y = 0; y < o.m; ++y)
    for (u32 k = 0; k < o.k; ++k) {
      const double x = a[y * o.k + k];
      const double* q = b + k * o.n;
      double* to = r + y * o.n;
      for (u32 n = 0; n < o.n; ++n) to[n] = __builtin_fma(x, q[n], to[n]);
    }
  for (u32 l = 0; l < kLanes; ++l) {
    for (u32 e = 0; e < o.c_count; ++e) {
      const double v = r[o.c_at[l * o.c_count + e]];
      if (o.d_type == MatrixType::f64)
        row<double>(c, ds[e])[l] = v;
      else if (o.d_type == MatrixType::f32)
        row<float>(c, ds[e])[l] = canonical(static_cast<float>(v));
      else {
        const u32 h = float_to_half(round_to_odd(v));
        u32& w = row<u32>(c, ds[e / 2])[l];
        w = e % 2 ? (w & 0xffffu) | (h << 16) : h;
      }
    }
  }
  return i + 1;
}
const Inst* mma_integer(Ctx* c, const Inst* i) {
  const auto& o = *static_cast<const MatrixOp*>(i->aux);
  const u32 *ds = i->extra, *as = ds + o.d_regs, *bs = as + o.a_regs, *cs = bs + o.b_regs;
  alignas(64) int32_t a[32 * 64], b[64 * 32];
  alignas(64) int64_t r[32 * 32];
  for (u32 l = 0; l < kLanes; ++l) {
    for (u32 e = 0; e < o.a_count; ++e) a[o.a_at[l * o.a_count + e]] = integer_element(c, as, o.a_type, l, e);
    for (u32 e = 0; e < o.b_count; ++e) b[o.b_at[l * o.b_count + e]] = integer_element(c, bs, o.b_type, l, e);
    for (u32 e = 0; e < o.c_count; ++e) r[o.c_at[l * o.c_count + e]] = integer_element(c, cs, o.c_type, l, e);
  }
  for (u32 y = 0; y < o.m; ++y)
    for (u32 k = 0; k < o.k; ++k)
      for (u32 n = 0; n < o.n; ++n) r[y * o.n + n] += static_cast<int64_t>(a[y * o.k + k]) * b[k * o.n + n];
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 e = 0; e < o.c_count; ++e) {
      int64_t v = r[o.c_at[l * o.c_count + e]];
      if (o.satfinite) {
        v = v > 0x7fffffffll ? 0x7fffffffll : v;
        v = v < -0x80000000ll ? -0x80000000ll : v;
      }
      row<int32_t>(c, ds[e])[l] = static_cast<int32_t>(v);
    }
  return i + 1;
}

}  // namespace

void register_matrix(HandlerTable* t) {
  add_handler(t, "mma.real", &mma_real, &mma_real);
  add_handler(t, "mma.integer", &mma_integer, &mma_integer);
}

}  // namespace simgpu::exec::SIMGPU_ISA
