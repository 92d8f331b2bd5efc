#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

__global__ void half_math(const __half* a, const __half2* b, __half2* out) {
  __half2 x = __hfma2(b[threadIdx.x], __half2half2(a[threadIdx.x]), b[threadIdx.x + 1]);
  out[threadIdx.x] = __hmax2(h2exp(x), __hmul2_sat(x, x));
  atomicAdd(&out[0], x);
}
#if __CUDA_ARCH__ >= 800
__global__ void bfloat_math(const __nv_bfloat16* a, __nv_bfloat162* out) {
  __nv_bfloat162 x = __halves2bfloat162(a[threadIdx.x], a[threadIdx.x + 1]);
  out[threadIdx.x] = __hfma2(x, x, __hneg2(x));
  out[threadIdx.x + 1].x = hsqrt(x.x) + hlog(x.y);
}
#endif
__global__ void fp8_convert(const float4* in, __nv_fp8x4_e4m3* e4m3, __nv_fp8x4_e5m2* e5m2, float4* back) {
  e4m3[threadIdx.x] = __nv_fp8x4_e4m3(in[threadIdx.x]);
  e5m2[threadIdx.x] = __nv_fp8x4_e5m2(in[threadIdx.x]);
  back[threadIdx.x] = static_cast<float4>(e4m3[threadIdx.x + 1]);
}
__global__ void wmma_tile(const __half* a, const __half* b, float* c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, __half, col_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 0.0f);
  load_matrix_sync(fa, a, 16);
  load_matrix_sync(fb, b, 16);
  mma_sync(fc, fa, fb, fc);
  store_matrix_sync(c, fc, 16, mem_row_major);
}
