// Tensor-core matrix products: wmma fragments of half and of 8-bit integers, and mma.sync in inline assembly
// with bfloat16. Small integer values make every sum exact. PTX for 8.0.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "check.h"

using namespace nvcuda;

__global__ void half_product(const __half* a, const __half* b, float* c, int n) {
  const int row = blockIdx.y * 16, col = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 1.0f);
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(fa, a + row * n + k, n);
    wmma::load_matrix_sync(fb, b + col * n + k, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2.0f;
  wmma::store_matrix_sync(c + row * n + col, fc, n, wmma::mem_row_major);
}

__global__ void byte_product(const signed char* a, const signed char* b, int* c, int n) {
  const int row = blockIdx.y * 16, col = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
  wmma::fill_fragment(fc, 0);
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(fa, a + row * n + k, n);
    wmma::load_matrix_sync(fb, b + k * n + col, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + row * n + col, fc, n, wmma::mem_row_major);
}

// One warp, m16n8k16, operands placed in registers as the PTX ISA lays them out.
__global__ void mma_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  const int lane = threadIdx.x, group = lane >> 2, pair = (lane & 3) * 2;
  auto two = [](const __nv_bfloat16* p, int stride) {
    return static_cast<unsigned>(__bfloat16_as_ushort(p[0])) |
           static_cast<unsigned>(__bfloat16_as_ushort(p[stride])) << 16;
  };
  const unsigned a0 = two(a + group * 16 + pair, 1), a1 = two(a + (group + 8) * 16 + pair, 1);
  const unsigned a2 = two(a + group * 16 + pair + 8, 1), a3 = two(a + (group + 8) * 16 + pair + 8, 1);
  const unsigned b0 = two(b + pair * 8 + group, 8), b1 = two(b + (pair + 8) * 8 + group, 8);
  float d0, d1, d2, d3;
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%11,%12,%13};"
      : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.5f), "f"(0.5f), "f"(0.5f), "f"(0.5f));
  c[group * 8 + pair] = d0;
  c[group * 8 + pair + 1] = d1;
  c[(group + 8) * 8 + pair] = d2;
  c[(group + 8) * 8 + pair + 1] = d3;
}

int main() {
  Report report;
  const int n = 64;
  Random random(33);
  auto small = [&] { return static_cast<int>(random.next() % 15) - 7; };
  {
    std::vector<__half> a(n * n), b(n * n);
    std::vector<float> want(n * n);
    for (auto& v : a) v = __float2half(static_cast<float>(small()));
    for (auto& v : b) v = __float2half(static_cast<float>(small()));
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        float sum = 1;
        for (int k = 0; k < n; ++k) sum += __half2float(a[i * n + k]) * __half2float(b[j * n + k]);
        want[i * n + j] = 2 * sum;
      }
    }
    float* c = device_array<float>(n * n);
    half_product<<<dim3(n / 16, n / 16), 32>>>(device_copy(a), device_copy(b), c, n);
    CUDA(cudaGetLastError());
    const std::vector<float> got = host_copy(c, n * n);
    report.check("wmma half", same(got, want), digest(got));
  }
  {
    std::vector<signed char> a(n * n), b(n * n);
    std::vector<int> want(n * n);
    for (auto& v : a) v = static_cast<signed char>(random.next());
    for (auto& v : b) v = static_cast<signed char>(random.next());
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        int sum = 0;
        for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
        want[i * n + j] = sum;
      }
    }
    int* c = device_array<int>(n * n);
    byte_product<<<dim3(n / 16, n / 16), 32>>>(device_copy(a), device_copy(b), c, n);
    CUDA(cudaGetLastError());
    const std::vector<int> got = host_copy(c, n * n);
    report.check("wmma bytes", same(got, want), digest(got));
  }
  {
    std::vector<__nv_bfloat16> a(16 * 16), b(16 * 8);
    std::vector<float> want(16 * 8);
    for (auto& v : a) v = __float2bfloat16(static_cast<float>(small()));
    for (auto& v : b) v = __float2bfloat16(static_cast<float>(small()));
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        float sum = 0.5f;
        for (int k = 0; k < 16; ++k) sum += __bfloat162float(a[i * 16 + k]) * __bfloat162float(b[k * 8 + j]);
        want[i * 8 + j] = sum;
      }
    }
    float* c = device_array<float>(16 * 8);
    mma_bf16<<<1, 32>>>(device_copy(a), device_copy(b), c);
    CUDA(cudaGetLastError());
    const std::vector<float> got = host_copy(c, 16 * 8);
    report.check("mma.sync bf16", same(got, want), digest(got));
  }
  return report.finish();
}
