// Ordinary kernels, end to end through nvcc.
#include <algorithm>

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

TEST(Exec, ParametersLocalConstantHeap) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
struct S { int a[16]; long long b; };
__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counter = 5;
__device__ int* where = &counter;
__device__ __noinline__ int through(const S* s, int i) { return s->a[i] + (int)s->b; }
__device__ __noinline__ void swap_down(int* a, int i) { int t = a[i]; a[i] = a[i + 1]; a[i + 1] = t; }
__global__ void k(const __grid_constant__ S s, S t, int* out, int n) {
  int i = threadIdx.x, local[8];
  for (int j = 0; j < 8; ++j) local[j] = table[(j + i) & 7] * (j + 1);
  for (int r = 0; r < n; ++r) for (int j = 0; j + 1 < n - r; ++j) if (local[j] > local[j + 1]) swap_down(local, j);
  int* p = (int*)malloc(16 * sizeof(int));
  for (int j = 0; j < 16; ++j) p[j] = t.a[(j * i) & 15];
  int sum = 0;
  for (int j = 0; j < 16; ++j) sum += p[j] * (j + 1);
  free(p);
  out[i] = through(&s, i & 15) + local[i & 7] * 1000 + sum + *where;
}
__global__ void wide(const int4* a, int4* b, const double2* c, double2* e, const uchar4* f, short2* g) {
  int i = threadIdx.x; int4 v = a[i]; b[31 - i] = make_int4(v.w, v.z, v.y, v.x); double2 x = c[i]; if (i & 1) e[i] = make_double2(x.y, x.x); uchar4 q = f[i]; g[i] = make_short2(q.x - q.w, q.y * q.z);
})")));
  struct S {
    int a[16];
    long long b;
  } s{}, t{};
  for (int i = 0; i < 16; ++i) {
    s.a[i] = i * i;
    t.a[i] = 7 - i;
  }
  s.b = 11;
  const uint64_t p = d.memory.allocate(128 * 4);
  d.ok("k", {1}, {128}, args(s, t, p, 8));
  const int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
  for (int i = 0; i < 128; ++i) {
    std::vector<int> local(8);
    for (int j = 0; j < 8; ++j) local[static_cast<size_t>(j)] = table[(j + i) & 7] * (j + 1);
    std::sort(local.begin(), local.end());
    int sum = 0;
    for (int j = 0; j < 16; ++j) sum += t.a[(j * i) & 15] * (j + 1);
    ASSERT_EQ(d.memory.host<int>(p)[i], s.a[i & 15] + 11 + local[static_cast<size_t>(i & 7)] * 1000 + sum + 5)
        << i;
  }
  std::vector<int> a(128);
  std::vector<double> c(64);
  std::vector<unsigned char> f(128);
  for (size_t i = 0; i < 128; ++i) {
    a[i] = static_cast<int>(i * 3);
    f[i] = static_cast<unsigned char>(i * 37);
  }
  for (size_t i = 0; i < 64; ++i) c[i] = static_cast<double>(i) / 3;
  const uint64_t pa = d.memory.upload(a), pb = d.memory.allocate(512), pc = d.memory.upload(c),
                 pe = d.memory.allocate(512), pf = d.memory.upload(f), pg = d.memory.allocate(128);
  d.ok("wide", {1}, {32}, args(pa, pb, pc, pe, pf, pg));
  for (size_t i = 0; i < 32; ++i) {
    for (size_t j = 0; j < 4; ++j) ASSERT_EQ(d.memory.host<int>(pb)[(31 - i) * 4 + j], a[i * 4 + 3 - j]);
    for (size_t j = 0; j < 2; ++j)
      ASSERT_EQ(d.memory.host<double>(pe)[i * 2 + j], i & 1 ? c[i * 2 + 1 - j] : 0.0);
    ASSERT_EQ(d.memory.host<short>(pg)[i * 2], static_cast<short>(f[i * 4] - f[i * 4 + 3]));
    ASSERT_EQ(d.memory.host<short>(pg)[i * 2 + 1], static_cast<short>(f[i * 4 + 1] * f[i * 4 + 2]));
  }
}

}  // namespace
}  // namespace simgpu::exec::test
