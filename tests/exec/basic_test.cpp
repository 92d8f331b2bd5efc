// Ordinary kernels, end to end through nvcc.
#include "tests/exec/fixture.h"

namespace simgpu::exec::test {
namespace {

TEST(Exec, VectorAdd) {
  Device d;
  ASSERT_TRUE(
      d.load(nvcc_ptx("__global__ void k(const float* a, const float* b, float* c, int n) { int i = "
                      "blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }")));
  const int n = 10001;
  std::vector<float> a(n), b(n);
  for (int i = 0; i < n; ++i) {
    a[static_cast<size_t>(i)] = static_cast<float>(i) * 0.5f;
    b[static_cast<size_t>(i)] = 3.0f - static_cast<float>(i);
  }
  const uint64_t pa = d.memory.upload(a), pb = d.memory.upload(b), pc = d.memory.allocate(n * 4);
  const Result r = d.ok("k", {40}, {256}, args(pa, pb, pc, n));
  for (int i = 0; i < n; ++i)
    ASSERT_EQ(d.memory.host<float>(pc)[i], a[static_cast<size_t>(i)] + b[static_cast<size_t>(i)]) << i;
  EXPECT_EQ(r.stats.bytes_written, static_cast<uint64_t>(n) * 4);
  EXPECT_EQ(r.stats.bytes_read, static_cast<uint64_t>(n) * 8);
}

const char* const kReduce = R"(
__global__ void reduce(const int* in, int* out, int n) {
  __shared__ int s[256];
  int t = threadIdx.x, sum = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) sum += in[i];
  s[t] = sum;
  __syncthreads();
  for (int w = 128; w > 0; w /= 2) { if (t < w) s[t] += s[t + w]; __syncthreads(); }
  if (t == 0) atomicAdd(out, s[0]);
}
extern __shared__ float tile[];
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  float* ta = tile; float* tb = tile + 256;
  int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * 16 + x, r = blockIdx.y * 16 + y;
  float acc = 0;
  for (int k = 0; k < n; k += 16) {
    ta[y * 16 + x] = a[r * n + k + x]; tb[y * 16 + x] = b[(k + y) * n + col];
    __syncthreads();
    for (int j = 0; j < 16; ++j) acc += ta[y * 16 + j] * tb[j * 16 + x];
    __syncthreads();
  }
  c[r * n + col] = acc;
}
__global__ void collatz(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
  unsigned v = i + 1; int steps = 0;
  while (v != 1) { v = (v & 1) ? 3 * v + 1 : v / 2; steps++; }
  out[i] = steps;
}
)";

TEST(Exec, SharedReduction) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(kReduce)));
  std::vector<int> in(100000);
  int want = 0;
  for (size_t i = 0; i < in.size(); ++i) want += in[i] = static_cast<int>(i * 7 % 1000) - 300;
  const uint64_t p = d.memory.upload(in), q = d.memory.upload(std::vector<int>{0});
  for (uint32_t threads : {1u, 2u}) {
    d.launch.threads = threads;
    *d.memory.host<int>(q) = 0;
    d.ok("reduce", {30}, {256}, args(p, q, static_cast<int>(in.size())));
    EXPECT_EQ(*d.memory.host<int>(q), want);
  }
}
TEST(Exec, TiledMatmul) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(kReduce)));
  const int n = 64;
  std::vector<float> a(n * n), b(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[static_cast<size_t>(i)] = static_cast<float>(i % 13 - 6);
    b[static_cast<size_t>(i)] = static_cast<float>(i % 7 - 3);
  }
  const uint64_t pa = d.memory.upload(a), pb = d.memory.upload(b), pc = d.memory.allocate(n * n * 4);
  d.ok("matmul", {4, 4}, {16, 16}, args(pa, pb, pc, n), 2048);
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < n; ++c) {
      float want = 0;
      for (int k = 0; k < n; ++k)
        want += a[static_cast<size_t>(r * n + k)] * b[static_cast<size_t>(k * n + c)];
      ASSERT_EQ(d.memory.host<float>(pc)[r * n + c], want) << r << "," << c;
    }
}
TEST(Exec, Divergence) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(kReduce)));
  const int n = 1000;
  const uint64_t p = d.memory.allocate(n * 4);
  d.ok("collatz", {8}, {128}, args(p, n));
  for (int i = 0; i < n; ++i) {
    unsigned v = static_cast<unsigned>(i) + 1;
    int steps = 0;
    while (v != 1) {
      v = (v & 1) ? 3 * v + 1 : v / 2;
      steps++;
    }
    ASSERT_EQ(d.memory.host<int>(p)[i], steps) << i;
  }
}

TEST(Exec, CallsRecursionPrintf) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
#include <cstdio>
struct S { int a[5]; char c; };
__device__ __noinline__ int fact(int n) { return n > 1 ? n * fact(n - 1) : 1; }
__device__ __noinline__ int pick(S s, int i) { return s.a[i] + s.c; }
typedef int (*F)(int);
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int thrice(int x) { return 3 * x; }
__device__ F table[2] = {twice, thrice};
__global__ void k(int* out, S s, int n) {
  int i = threadIdx.x;
  out[i] = fact(i % 10) + pick(s, i % n) + table[i & 1](i);
  if (i < 3) printf("i=%d f=%.2f s=%s p=%%\n", i, i * 1.5, "text");
}
)")));
  struct S {
    int a[5];
    char c;
  } s = {{10, 20, 30, 40, 50}, 7};
  const uint64_t p = d.memory.allocate(64 * 4);
  const Result r = d.ok("k", {1}, {64}, args(p, s, 5));
  for (int i = 0; i < 64; ++i) {
    int f = 1;
    for (int k = 2; k <= i % 10; ++k) f *= k;
    ASSERT_EQ(d.memory.host<int>(p)[i], f + s.a[i % 5] + 7 + (i & 1 ? 3 * i : 2 * i)) << i;
  }
  EXPECT_EQ(r.printed, "i=0 f=0.00 s=text p=%\ni=1 f=1.50 s=text p=%\ni=2 f=3.00 s=text p=%\n");
}

}  // namespace
}  // namespace simgpu::exec::test
