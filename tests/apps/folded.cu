// The same arithmetic twice: with operands that the compiler knows, which it folds, and with operands read
// from memory, which the device executes. Bit for bit the same (any NaN is one), for each operation over
// pairs of edge values.
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

// clang-format off
#define FLOATS(X) \
  X(0.1f, 0.3f) X(1.0f, 3.0f) X(-7.5f, 2.0f) X(1e38f, 10.0f) X(-1e38f, 1e38f) X(1e-38f, 1e-3f) \
  X(1.17549435e-38f, 0.5f) X(1.4e-45f, 3.0f) X(16777216.0f, 1.0f) X(16777217.0f, -0.5f) X(0.0f, -0.0f) \
  X(-0.0f, 5.0f) X(2147483647.0f, 0.5f) X(-2147483648.0f, 1.5f) X(0.99999994f, 1.00000012f) \
  X(3.4028235e38f, 3.4028235e38f) X(2.5f, 3.5f) X(-2.5f, -3.5f) X(1.0f / 0.0f, 2.0f) \
  X(4.0f, 1.0f / 0.0f) X(65504.0f, 65520.0f) X(6.1e-5f, 5.96e-8f) X(12345.678f, 0.001f) X(1e10f, 7.0f)
#define DOUBLES(X) \
  X(0.1, 0.3) X(1.0, 3.0) X(-7.5, 2.0) X(1e308, 10.0) X(-1e308, 1e308) X(1e-308, 1e-3) \
  X(2.2250738585072014e-308, 0.5) X(5e-324, 3.0) X(9007199254740992.0, 1.0) X(9007199254740993.0, -0.5) \
  X(0.0, -0.0) X(-0.0, 5.0) X(4294967295.5, 0.5) X(-9223372036854775808.0, 1.5) \
  X(0.99999999999999989, 1.0000000000000002) X(2.5, 3.5) X(-2.5, -3.5) X(1.0 / 0.0, 2.0) \
  X(4.0, 1.0 / 0.0) X(1e10, 7.0) X(123456789.123, 1e-9)
#define INTS(X) \
  X(7, 3) X(-7, 3) X(7, -3) X(-7, -3) X(0, 5) X(2147483647, 2) X(-2147483647 - 1, 3) \
  X(-2147483647 - 1, 31) X(1, 31) X(-1, 1) X(0x12345678, 8) X(0x7fffffff, 0x7fffffff) X(-2, 30) \
  X(65535, 65537) X(1 << 30, 4) X(-1, 33) X(100, 32) X(5, 64)
// clang-format on

template <class T>
struct Pair {
  T a, b;
};

#define BINARY(name, T, R, expression)                           \
  struct name {                                                  \
    using In = T;                                                \
    using Out = R;                                               \
    static constexpr const char* text = #expression;             \
    __device__ static R apply(T a, T b) { return (expression); } \
  };

// clang-format off
#define FLOAT_OPS(X) \
  X(F0, float, float, a + b) X(F1, float, float, a - b) X(F2, float, float, __fmul_rn(a, b)) \
  X(F3, float, float, a / b) X(F4, float, float, fmaf(a, b, a)) X(F5, float, float, fminf(a, b)) \
  X(F6, float, float, fmaxf(a, b)) X(F7, float, float, sqrtf(fabsf(a))) X(F8, float, float, truncf(a)) \
  X(F9, float, float, rintf(a)) X(F10, float, float, floorf(a)) X(F11, float, float, ceilf(a)) \
  X(F12, float, float, copysignf(a, b)) X(F13, float, int, (int)fminf(fmaxf(a, -2e9f), 2e9f)) \
  X(F14, float, int, a < b) X(F15, float, int, a == b) X(F16, float, double, (double)a * b) \
  X(F17, float, float, __half2float(__float2half_rn(a))) X(F18, float, float, __fadd_rz(a, b)) \
  X(F19, float, float, __fmul_ru(a, b)) X(F20, float, float, __fdiv_rd(a, b)) \
  X(F21, float, int, __float2int_rn(fminf(fmaxf(a, -2e9f), 2e9f))) X(F22, float, float, -a* b + a)
#define DOUBLE_OPS(X) \
  X(D0, double, double, a + b) X(D1, double, double, a - b) X(D2, double, double, __dmul_rn(a, b)) \
  X(D3, double, double, a / b) X(D4, double, double, fma(a, b, a)) X(D5, double, double, fmin(a, b)) \
  X(D6, double, double, fmax(a, b)) X(D7, double, double, sqrt(fabs(a))) X(D8, double, double, trunc(a)) \
  X(D9, double, double, rint(a)) X(D10, double, float, (float)a) X(D11, double, double, floor(a)) \
  X(D12, double, double, ceil(a)) X(D13, double, long long, (long long)fmin(fmax(a, -9e18), 9e18)) \
  X(D14, double, int, a < b) X(D15, double, double, copysign(a, b))
#define INT_OPS(X) \
  X(I0, int, int, (int)((unsigned)a + (unsigned)b)) X(I1, int, int, (int)((unsigned)a * (unsigned)b)) \
  X(I2, int, int, a / b) X(I3, int, int, a % b) X(I4, int, unsigned, (unsigned)a / (unsigned)b) \
  X(I5, int, unsigned, (unsigned)a % (unsigned)b) X(I6, int, int, (int)((unsigned)a << (b & 31))) \
  X(I7, int, int, a >> (b & 31)) X(I8, int, unsigned, (unsigned)a >> (b & 31)) \
  X(I9, int, int, __mulhi(a, b)) X(I10, int, unsigned, __umulhi(a, b)) X(I11, int, int, __popc(a)) \
  X(I12, int, int, __clz(a)) X(I13, int, unsigned, __brev(a)) X(I14, int, int, __ffs(a)) \
  X(I15, int, unsigned, __byte_perm(a, b, 0x3715)) X(I16, int, unsigned, __funnelshift_l(a, b, b)) \
  X(I17, int, int, min(a, b)) X(I18, int, int, max(a, b)) X(I19, int, int, abs(a | 1)) \
  X(I20, int, long long, (long long)a * b) X(I21, int, long long, (long long)a * 1000003 / b) \
  X(I22, int, float, (float)a) X(I23, int, double, (double)(unsigned)a) \
  X(I24, int, unsigned long long, (unsigned long long)(unsigned)a % (unsigned)b) \
  X(I25, int, unsigned, __usad(a, b, 7u)) X(I26, int, int, __hadd(a, b)) \
  X(I27, int, float, __uint2float_rz(a))
// clang-format on

FLOAT_OPS(BINARY)
DOUBLE_OPS(BINARY)
INT_OPS(BINARY)

template <class Op>
__device__ void put(uint64_t* out, typename Op::Out v) {
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof v);
  *out = bits;
}

#define ONE(a, b) put<Op>(out++, Op::apply(a, b));
template <class Op>
__global__ void folded_float(uint64_t* out) {
  FLOATS(ONE)
}
template <class Op>
__global__ void folded_double(uint64_t* out) {
  DOUBLES(ONE)
}
template <class Op>
__global__ void folded_int(uint64_t* out) {
  INTS(ONE)
}
template <class Op>
__global__ void executed(uint64_t* out, const Pair<typename Op::In>* in) {
  const unsigned i = threadIdx.x;
  put<Op>(out + i, Op::apply(in[i].a, in[i].b));
}

// The lesser of two zeros: the device takes -0, C leaves it open, and the compiler takes the first.
template <class Op>
constexpr bool kAnyZero = Op::text[0] == 'f' && Op::text[1] == 'm' &&
                          (Op::text[2] == 'i' || Op::text[2] == 'a') && Op::text[3] != 'a';

template <class Op>
bool same(uint64_t x, uint64_t y) {
  typename Op::Out a, b;
  memcpy(&a, &x, sizeof a), memcpy(&b, &y, sizeof b);
  return x == y || (a != a && b != b) || (kAnyZero<Op> && a == 0 && b == 0);
}

int g_compared, g_different;
template <class Op>
void compare(void (*folded)(uint64_t*), const std::vector<Pair<typename Op::In>>& pairs) {
  uint64_t *a, *b;
  Pair<typename Op::In>* in;
  const size_t n = pairs.size();
  CUDA(cudaMalloc(&a, n * 8));
  CUDA(cudaMalloc(&b, n * 8));
  CUDA(cudaMalloc(&in, n * sizeof *in));
  CUDA(cudaMemcpy(in, pairs.data(), n * sizeof *in, cudaMemcpyHostToDevice));
  folded<<<1, 1>>>(a);
  executed<Op><<<1, unsigned(n)>>>(b, in);
  std::vector<uint64_t> x(n), y(n);
  CUDA(cudaMemcpy(x.data(), a, n * 8, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(y.data(), b, n * 8, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < n; ++i) {
    ++g_compared;
    if (same<Op>(x[i], y[i])) continue;
    ++g_different;
    std::printf("%s of pair %zu (%g, %g): folded %016lx, executed %016lx\n", Op::text, i, double(pairs[i].a),
                double(pairs[i].b), x[i], y[i]);
  }
  CUDA(cudaFree(a));
  CUDA(cudaFree(b));
  CUDA(cudaFree(in));
}

}  // namespace

int main() {
#define PAIR(a, b) {a, b},
  const std::vector<Pair<float>> floats{FLOATS(PAIR)};
  const std::vector<Pair<double>> doubles{DOUBLES(PAIR)};
  const std::vector<Pair<int>> ints{INTS(PAIR)};
#define RUN_FLOAT(name, ...) compare<name>(folded_float<name>, floats);
#define RUN_DOUBLE(name, ...) compare<name>(folded_double<name>, doubles);
#define RUN_INT(name, ...) compare<name>(folded_int<name>, ints);
  FLOAT_OPS(RUN_FLOAT)
  DOUBLE_OPS(RUN_DOUBLE)
  INT_OPS(RUN_INT)
  std::printf("%d results compared, %d differ\n", g_compared, g_different);
  std::puts(g_different ? "FAILED" : "PASSED");
  return g_different != 0;
}
