#include "tools/simgpu/exec/matrix.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace simgpu::exec {

uint32_t matrix_bits(MatrixType t) {
  switch (t) {
    case MatrixType::f16:
    case MatrixType::bf16:
      return 16;
    case MatrixType::tf32:
    case MatrixType::f32:
    case MatrixType::s32:
      return 32;
    case MatrixType::f64:
      return 64;
    case MatrixType::s8:
    case MatrixType::u8:
    case MatrixType::e4m3:
    case MatrixType::e5m2:
      return 8;
    case MatrixType::s4:
    case MatrixType::u4:
      return 4;
    case MatrixType::b1:
      return 1;
  }
  return 0;
}

namespace {

// Each lane's own elements in row-major order; a matrix smaller than the fragment repeats.
void plain_layout(uint16_t* at, uint32_t count, uint32_t total) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t e = 0; e < count; ++e)
      at[lane * count + e] = static_cast<uint16_t>((lane * count + e) % total);
}

bool mma_layout(MatrixOp& o) {
  const uint32_t bits = matrix_bits(o.a_type);
  if (bits == 1) return false;
  // Elements of one row group that lie side by side in a register.
  const uint32_t group = bits == 64 || o.a_type == MatrixType::tf32 ? 1 : 32 / bits;
  const uint32_t row_groups = o.m / 8, k_groups = o.k / (4 * group);
  if (o.m % 8 || o.n != 8 || k_groups == 0 || o.k % (4 * group) || row_groups > 2) return false;
  o.a_count = row_groups * k_groups * group;
  o.b_count = k_groups * group;
  o.c_count = row_groups * 2;
  if (o.a_count > 32 || o.b_count > 32) return false;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t e = 0; e < o.a_count; ++e) {
      const uint32_t in = e % group, block = e / group;
      const uint32_t r = g + 8 * (block % row_groups), c = t * group + in + 4 * group * (block / row_groups);
      o.a_at[lane * o.a_count + e] = static_cast<uint16_t>(r * o.k + c);
    }
    for (uint32_t e = 0; e < o.b_count; ++e) {
      const uint32_t r = t * group + e % group + 4 * group * (e / group);
      o.b_at[lane * o.b_count + e] = static_cast<uint16_t>(r * 8 + g);
    }
    for (uint32_t e = 0; e < o.c_count; ++e)
      o.c_at[lane * o.c_count + e] = static_cast<uint16_t>((g + 8 * (e / 2)) * 8 + t * 2 + e % 2);
  }
  return true;
}

uint32_t regs_for(uint32_t count, MatrixType t) {
  return t == MatrixType::f64 ? count : (count * matrix_bits(t) + 31) / 32;
}

}  // namespace

const MatrixOp* matrix_op(const std::string& key, uint32_t m, uint32_t n, uint32_t k, MatrixType a,
                          MatrixType b, MatrixType c, MatrixType d, bool wmma, bool satfinite,
                          bool and_popc) {
  static std::mutex mutex;
  static auto* const cache = new std::unordered_map<std::string, std::unique_ptr<MatrixOp>>;
  std::lock_guard lock(mutex);
  auto& slot = (*cache)[key];
  if (slot) return slot.get();
  auto o = std::make_unique<MatrixOp>();
  o->m = m;
  o->n = n;
  o->k = k;
  o->a_type = a;
  o->b_type = b;
  o->c_type = c;
  o->d_type = d;
  o->satfinite = satfinite;
  o->and_popc = and_popc;
  if (wmma) {
    const uint32_t twice = a == MatrixType::f16 ? 2 : 1;  // half-precision fragments hold every element twice
    o->a_count = m * k * twice / 32;
    o->b_count = k * n * twice / 32;
    o->c_count = m * n / 32;
    if (a == MatrixType::b1 || a == MatrixType::s4 || a == MatrixType::u4 || o->a_count == 0 ||
        o->a_count > 32 || o->b_count > 32 || o->c_count > 16)
      return nullptr;
    if (a == MatrixType::f16) {
      o->a_count = 16;
      o->b_count = 16;
    }
    plain_layout(o->a_at, o->a_count, m * k);
    plain_layout(o->b_at, o->b_count, k * n);
    plain_layout(o->c_at, o->c_count, m * n);
  } else if (!mma_layout(*o)) {
    return nullptr;
  }
  o->a_regs = regs_for(o->a_count, a);
  o->b_regs = regs_for(o->b_count, b);
  o->c_regs = regs_for(o->c_count, c);
  o->d_regs = regs_for(o->c_count, d);
  slot = std::move(o);
  return slot.get();
}

const FragmentOp* fragment_op(const std::string& key, uint32_t rows, uint32_t cols, MatrixType type,
                              uint32_t count, bool column_major) {
  static std::mutex mutex;
  static auto* const cache = new std::unordered_map<std::string, std::unique_ptr<FragmentOp>>;
  std::lock_guard lock(mutex);
  auto& slot = (*cache)[key];
  if (slot) return slot.get();
  if (count == 0 || count > 32) return nullptr;
  auto f = std::make_unique<FragmentOp>();
  f->rows = rows;
  f->cols = cols;
  f->count = count;
  f->type = type;
  f->column_major = column_major;
  f->regs = regs_for(count, type);
  plain_layout(f->at, count, rows * cols);
  slot = std::move(f);
  return slot.get();
}

}  // namespace simgpu::exec
