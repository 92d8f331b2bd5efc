// Half and bfloat16 arithmetic, packed and scalar, conversions with every rounding; references are exact sums
// in double rounded once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "check.h"

__global__ void half_ops(const __half* a, const __half* b, const __half* c, __half* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[0 * n + i] = __hadd(a[i], b[i]);
  out[1 * n + i] = __hsub(a[i], b[i]);
  out[2 * n + i] = __hmul(a[i], b[i]);
  out[3 * n + i] = __hfma(a[i], b[i], c[i]);
  out[4 * n + i] = __hmax(a[i], b[i]);
  out[5 * n + i] = __hneg(a[i]);
  out[6 * n + i] = __float2half_rn(__half2float(a[i]) + 1.0f);
  out[7 * n + i] = __hlt(a[i], b[i]) ? a[i] : b[i];
}

__global__ void half2_ops(const __half2* a, const __half2* b, const __half2* c, __half2* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __hfma2(a[i], b[i], c[i]);
  out[n + i] = __hmul2(__hadd2(a[i], b[i]), __lowhigh2highlow(c[i]));
}

__global__ void bf16_ops(const __nv_bfloat16* a, const __nv_bfloat16* b, const __nv_bfloat16* c,
                         __nv_bfloat16* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[0 * n + i] = __hadd(a[i], b[i]);
  out[1 * n + i] = __hmul(a[i], b[i]);
  out[2 * n + i] = __hfma(a[i], b[i], c[i]);
  out[3 * n + i] = __float2bfloat16(__bfloat162float(a[i]) * 3.0f);
}

__global__ void rounding(const float* in, unsigned short* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[0 * n + i] = __half_as_ushort(__float2half_rn(in[i]));
  out[1 * n + i] = __half_as_ushort(__float2half_rz(in[i]));
  out[2 * n + i] = __half_as_ushort(__float2half_ru(in[i]));
  out[3 * n + i] = __half_as_ushort(__float2half_rd(in[i]));
  out[4 * n + i] = static_cast<unsigned short>(__half2int_rn(__float2half_rn(in[i])));
  out[5 * n + i] = __half_as_ushort(__int2half_rn(static_cast<int>(in[i] * 100.0f)));
}

// The host side of the same headers converts in software: an independent path to the same rounding rules.
template <typename T>
T round_to(double v);
template <>
__half round_to<__half>(double v) {
  return __double2half(v);
}
template <>
__nv_bfloat16 round_to<__nv_bfloat16>(double v) {
  return __double2bfloat16(v);
}
double wide(__half v) { return __half2float(v); }
double wide(__nv_bfloat16 v) { return __bfloat162float(v); }

int main() {
  const int n = 4096;
  Report report;
  Random random(9);
  auto fill = [&](auto& v) {
    for (auto& x : v) x = round_to<std::decay_t<decltype(x)>>((random.unit() - 0.5) * 16.0);
  };
  {
    std::vector<__half> a(n), b(n), c(n), expected(8 * n);
    fill(a), fill(b), fill(c);
    for (int i = 0; i < n; ++i) {
      const double x = wide(a[i]), y = wide(b[i]), z = wide(c[i]);
      expected[0 * n + i] = round_to<__half>(x + y);
      expected[1 * n + i] = round_to<__half>(x - y);
      expected[2 * n + i] = round_to<__half>(x * y);
      expected[3 * n + i] = round_to<__half>(x * y + z);  // exact in double for this range
      expected[4 * n + i] = x > y ? a[i] : b[i];
      expected[5 * n + i] = round_to<__half>(-x);
      expected[6 * n + i] = round_to<__half>(static_cast<float>(x) + 1.0f);
      expected[7 * n + i] = x < y ? a[i] : b[i];
    }
    __half *da = device_copy(a), *db = device_copy(b), *dc = device_copy(c),
           *out = device_array<__half>(8 * n);
    half_ops<<<n / 128, 128>>>(da, db, dc, out, n);
    const std::vector<__half> got = host_copy(out, 8 * n);
    report.check("half", same(got, expected), digest(got));

    std::vector<__half> expected2(2 * n);
    for (int i = 0; i < n; ++i) {
      const double x = wide(a[i]), y = wide(b[i]), z = wide(c[i]), swapped = wide(c[i ^ 1]);
      expected2[i] = round_to<__half>(x * y + z);
      expected2[n + i] = round_to<__half>(wide(round_to<__half>(x + y)) * swapped);
    }
    half2_ops<<<n / 256, 128>>>(reinterpret_cast<__half2*>(da), reinterpret_cast<__half2*>(db),
                                reinterpret_cast<__half2*>(dc), reinterpret_cast<__half2*>(out), n / 2);
    const std::vector<__half> got2 = host_copy(out, 2 * n);
    report.check("half2", same(got2, expected2), digest(got2));
  }
  {
    std::vector<__nv_bfloat16> a(n), b(n), c(n), expected(4 * n);
    fill(a), fill(b), fill(c);
    for (int i = 0; i < n; ++i) {
      const double x = wide(a[i]), y = wide(b[i]), z = wide(c[i]);
      expected[0 * n + i] = round_to<__nv_bfloat16>(x + y);
      expected[1 * n + i] = round_to<__nv_bfloat16>(x * y);
      expected[2 * n + i] = round_to<__nv_bfloat16>(x * y + z);
      expected[3 * n + i] = round_to<__nv_bfloat16>(static_cast<float>(x) * 3.0f);
    }
    __nv_bfloat16 *da = device_copy(a), *db = device_copy(b), *dc = device_copy(c),
                  *out = device_array<__nv_bfloat16>(4 * n);
    bf16_ops<<<n / 128, 128>>>(da, db, dc, out, n);
    const std::vector<__nv_bfloat16> got = host_copy(out, 4 * n);
    report.check("bfloat16", same(got, expected), digest(got));
  }
  {
    // Normal, subnormal, overflowing and special values of half.
    std::vector<float> in(n);
    for (int i = 0; i < n; ++i)
      in[i] = std::ldexp(random.unit() * 2.0f - 1.0f, static_cast<int>(random.next() % 44) - 26);
    in[0] = 0.0f, in[1] = -0.0f, in[2] = INFINITY, in[3] = -INFINITY, in[4] = 65520.0f, in[5] = 65519.0f,
    in[6] = 6e-8f;
    std::vector<unsigned short> expected(6 * n);
    for (int i = 0; i < n; ++i) {
      const float f = in[i];
      expected[0 * n + i] = __half_as_ushort(__float2half_rn(f));
      expected[1 * n + i] = __half_as_ushort(__float2half_rz(f));
      expected[2 * n + i] = __half_as_ushort(__float2half_ru(f));
      expected[3 * n + i] = __half_as_ushort(__float2half_rd(f));
      const float h = __half2float(__float2half_rn(f));
      expected[4 * n + i] =
          std::isinf(h) ? (h > 0 ? 0xffff : 0x0000) : static_cast<unsigned short>(std::lrintf(h));
      const double scaled = static_cast<double>(f * 100.0f);
      const int whole = scaled >= 2147483647.0    ? 2147483647
                        : scaled <= -2147483648.0 ? -2147483647 - 1
                                                  : static_cast<int>(scaled);
      expected[5 * n + i] = __half_as_ushort(__int2half_rn(whole));
    }
    float* d_in = device_copy(in);
    unsigned short* out = device_array<unsigned short>(6 * n);
    rounding<<<n / 128, 128>>>(d_in, out, n);
    const std::vector<unsigned short> got = host_copy(out, 6 * n);
    report.check("rounding", same(got, expected), digest(got));
  }
  return report.finish();
}
