// Fragment layouts of the matrix instructions: which element of which matrix each lane's registers hold.
#pragma once
#include <cstdint>
#include <string>

namespace simgpu::exec {

enum class MatrixType : uint8_t { f16, bf16, tf32, f32, f64, s8, u8, s4, u4, b1, s32, e4m3, e5m2 };

struct MatrixOp {
  uint32_t m = 0, n = 0, k = 0;
  MatrixType a_type{}, b_type{}, c_type{}, d_type{};
  uint32_t a_count = 0, b_count = 0, c_count = 0;  // elements per lane
  uint32_t a_regs = 0, b_regs = 0, c_regs = 0, d_regs = 0;
  bool satfinite = false, and_popc = false;  // integer saturation; b1: and instead of xor
  // [lane * count + element] -> row-major index in the matrix (a: m x k, b: k x n, c: m x n)
  uint16_t a_at[32 * 32], b_at[32 * 32], c_at[32 * 16];
};

// Element bits, and how many elements one register holds.
uint32_t matrix_bits(MatrixType);

// mma.sync layouts (PTX manual) and the executor's own for wmma, whose layout the manual leaves open. Null:
// unknown shape.
const MatrixOp* matrix_op(const std::string& key, uint32_t m, uint32_t n, uint32_t k, MatrixType a,
                          MatrixType b, MatrixType c, MatrixType d, bool wmma, bool satfinite, bool and_popc);

// wmma.load / wmma.store of one fragment.
struct FragmentOp {
  uint32_t rows = 0, cols = 0, count = 0, regs = 0;  // count: elements per lane
  MatrixType type{};
  bool column_major = false;
  uint16_t at[32 * 32];
};
const FragmentOp* fragment_op(const std::string& key, uint32_t rows, uint32_t cols, MatrixType type,
                              uint32_t count, bool column_major);

}  // namespace simgpu::exec
