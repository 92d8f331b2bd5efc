// What goes wrong and what must not: faults, divergence with warp-wide instructions, spin locks, barriers,
// grid-wide waiting, recorded accesses, repeatability.
#include <algorithm>

#include "tests/exec/fixture.h"

namespace simgpu::exec::test {
namespace {

std::string entry(const std::string& params, const std::string& body) {
  return ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(" + params + ") {\n" + body +
         "\nret;\n}\n";
}
const char* const kTwo = ".param .u64 p0, .param .u64 p1";
const char* const kRegs = ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .f32 %f<8>;\n";

void expect_fault(const std::string& body, Fault want, uint32_t line_at_least = 1) {
  Device d;
  ASSERT_TRUE(d.load(entry(kTwo, kRegs + body)));
  const uint64_t p = d.memory.allocate(256);
  const Result r = d.run("k", {1}, {32}, args(p, p));
  EXPECT_EQ(static_cast<int>(r.state), static_cast<int>(Execution::State::faulted)) << body;
  EXPECT_EQ(static_cast<int>(r.fault.fault), static_cast<int>(want)) << r.fault.text;
  EXPECT_GE(r.fault.line, line_at_least);
}

TEST(Behaviour, Faults) {
  expect_fault("ld.param.u64 %rd1, [p0]; ld.global.u32 %r1, [%rd1+256];", Fault::illegal_address);
  expect_fault("ld.param.u64 %rd1, [p0]; ld.global.u32 %r1, [%rd1+253];", Fault::misaligned_address);
  expect_fault("ld.param.u64 %rd1, [p0]; st.global.v4.u32 [%rd1+8], {%r1, %r1, %r1, %r1};",
               Fault::misaligned_address);
  expect_fault("mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1];", Fault::illegal_address);
  expect_fault("mov.u64 %rd1, 0; ld.u32 %r1, [%rd1];", Fault::illegal_address);
  expect_fault("mov.u64 %rd1, -8; ld.global.u64 %rd1, [%rd1];", Fault::illegal_address);
  expect_fault("mov.u32 %r1, 100000; ld.shared.u32 %r1, [%r1];", Fault::illegal_address);
  expect_fault("ld.param.u64 %rd1, [p0]; atom.global.add.u32 %r1, [%rd1+1024], 1;", Fault::illegal_address);
  expect_fault("trap;", Fault::launch_failed);
  expect_fault("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 7; @%p1 trap;", Fault::launch_failed);
  expect_fault("mov.u64 %rd1, 12345; call (), %rd1, (), proto; proto: .callprototype ()_ ();",
               Fault::invalid_pc);
}
TEST(Behaviour, FaultNamesLineBlockThread) {
  Device d;
  ASSERT_TRUE(
      d.load(nvcc_ptx("__global__ void k(int* p) { if (blockIdx.x == 3 && threadIdx.y == 2 && threadIdx.x == "
                      "5) p[1000000] = 1; }")));
  const uint64_t p = d.memory.allocate(64);
  const Result r = d.run("k", {8}, {8, 4}, args(p));
  EXPECT_EQ(static_cast<int>(r.fault.fault), 700);
  EXPECT_EQ(r.fault.address, p + 4000000);
  EXPECT_EQ(r.fault.block.x, 3u);
  EXPECT_EQ(r.fault.thread.x, 5u);
  EXPECT_EQ(r.fault.thread.y, 2u);
  EXPECT_GT(r.fault.line, 0u);
}
TEST(Behaviour, Assert) {
  Device d;
  ASSERT_TRUE(
      d.load(nvcc_ptx("#include <cassert>\n__global__ void k(int* p) { assert(threadIdx.x < 30 || p[0]); "
                      "p[threadIdx.x] = 1; }")));
  const uint64_t p = d.memory.allocate(256);
  const Result r = d.run("k", {1}, {32}, args(p));
  EXPECT_EQ(static_cast<int>(r.fault.fault), 710);
  EXPECT_NE(r.printed.find("block: [0,0,0], thread: [30,0,0] Assertion `threadIdx.x < 30 || p[0]` failed."),
            std::string::npos)
      << r.printed;
  EXPECT_NE(r.printed.find("thread: [31,0,0]"), std::string::npos);
}
TEST(Behaviour, UnknownInstructionNamesItself) {
  Device d;
  std::string error;
  EXPECT_FALSE(d.load(entry(kTwo, kRegs + std::string("\nwgmma.fence.sync.aligned;")), &error));
  EXPECT_NE(error.find("wgmma.fence.sync.aligned"), std::string::npos) << error;
  EXPECT_NE(error.find("line 7"), std::string::npos) << error;
  EXPECT_FALSE(d.load(entry(kTwo, "call nowhere, ();"), &error));
  EXPECT_FALSE(error.empty());
}

// A lock taken by every lane of a warp: the lanes that spin must not starve the one that holds it.
TEST(Behaviour, SpinLockWithinWarp) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
__global__ void k(int* lock, int* count) {
  for (int i = 0; i < 3; ++i) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    int v = *(volatile int*)count; *(volatile int*)count = v + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
})")));
  const uint64_t lock = d.memory.allocate(4), count = d.memory.allocate(4);
  d.ok("k", {2}, {64}, args(lock, count));
  EXPECT_EQ(*d.memory.host<int>(count), 384);
  EXPECT_TRUE(d.program->kernels()[0].order_dependent);
}
// Blocks that wait for each other make progress, in one worker and over several calls.
TEST(Behaviour, BlocksWaitForEachOther) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
__global__ void k(int* flags, int* out) {
  if (threadIdx.x == 0) {
    int b = blockIdx.x, n = gridDim.x;
    if (b != n - 1) while (*(volatile int*)(flags + b + 1) == 0) {}   // the last block goes first
    out[b] = b + (b == n - 1 ? 0 : out[b + 1]);
    __threadfence();
    *(volatile int*)(flags + b) = 1;
  }
})")));
  const uint64_t flags = d.memory.allocate(64 * 4), out = d.memory.allocate(64 * 4);
  d.ok("k", {64}, {32}, args(flags, out));
  EXPECT_EQ(*d.memory.host<int>(out), 63 * 64 / 2);
}
TEST(Behaviour, CooperativeGridSync) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
#include <cooperative_groups.h>
__global__ void k(int* a, int* out, int n) {
  auto g = cooperative_groups::this_grid();
  int i = g.thread_rank();
  for (int step = 0; step < 4; ++step) {
    int v = a[(i + 1) % n] + a[(i + n - 1) % n];
    g.sync();
    a[i] = v;
    g.sync();
  }
  out[i] = a[n - 1 - i];
})")));
  EXPECT_TRUE(d.program->kernels()[0].uses_grid_sync);
  const int n = 1024;
  std::vector<int> a(n), next(n);
  for (int i = 0; i < n; ++i) a[static_cast<size_t>(i)] = i % 17;
  const uint64_t p = d.memory.upload(a), q = d.memory.allocate(n * 4);
  d.launch.cooperative = true;
  d.ok("k", {16}, {64}, args(p, q, n));
  for (int s = 0; s < 4; ++s) {
    for (int i = 0; i < n; ++i)
      next[static_cast<size_t>(i)] =
          a[static_cast<size_t>((i + 1) % n)] + a[static_cast<size_t>((i + n - 1) % n)];
    a = next;
  }
  for (int i = 0; i < n; ++i) ASSERT_EQ(d.memory.host<int>(q)[i], a[static_cast<size_t>(n - 1 - i)]) << i;
}

TEST(Behaviour, SyncInstructionsWaitForTheirLanes) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
__global__ void k(int* out) {
  int t = threadIdx.x, v = t;
  // The two halves come to the same exchange by different ways and at different times.
  if (t & 1) { for (int i = 0; i < t; ++i) v += i; } else { v *= 3; }
  __syncwarp();
  int s = __shfl_sync(~0u, v, 31 - t);
  unsigned b;
  if (t < 16) { b = __ballot_sync(0xffffu, t % 3 == 0); } else { b = __ballot_sync(0xffff0000u, t % 5 == 0); }
  unsigned m = __match_any_sync(~0u, t / 4);
  int r = __reduce_add_sync(~0u, t);
  out[t] = s; out[32 + t] = b; out[64 + t] = m; out[96 + t] = r;
  if (t < 8) return;
  out[128 + t] = __popc(__activemask()) + (__all_sync(__activemask(), t >= 8) ? 100 : 0);
}
__global__ void meet(int* out) {   // __syncwarp reached at two places
  __shared__ volatile int s[32];
  int t = threadIdx.x;
  if (t < 16) { s[t] = t; __syncwarp(); out[t] = s[t + 16]; } else { s[t] = t * 2; __syncwarp(); out[t] = s[t - 16]; }
})")));
  const uint64_t p = d.memory.allocate(160 * 4);
  d.ok("k", {1}, {32}, args(p));
  const int* o = d.memory.host<int>(p);
  const auto value = [](int t) {
    int v = t;
    if (t & 1)
      for (int i = 0; i < t; ++i) v += i;
    else
      v *= 3;
    return v;
  };
  for (int t = 0; t < 32; ++t) {
    unsigned b = 0;
    for (int k = 0; k < 32; ++k)
      if ((k < 16) == (t < 16) && (k < 16 ? k % 3 == 0 : k % 5 == 0)) b |= 1u << k;
    ASSERT_EQ(o[t], value(31 - t)) << t;
    ASSERT_EQ(static_cast<unsigned>(o[32 + t]), b) << t;
    ASSERT_EQ(static_cast<unsigned>(o[64 + t]), 15u << (t / 4 * 4)) << t;
    ASSERT_EQ(o[96 + t], 496) << t;
    if (t >= 8) {
      ASSERT_EQ(o[128 + t], 124) << t;
    }
  }
  d.ok("meet", {1}, {32}, args(p));
  for (int t = 0; t < 32; ++t) ASSERT_EQ(o[t], t < 16 ? (t + 16) * 2 : t - 16) << t;
}
TEST(Behaviour, NestedDivergence) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
__device__ __noinline__ int walk(int n, int d) { if (n <= 1) return d; if (n & 1) return walk(3 * n + 1, d + 1) + 1; return walk(n / 2, d) * 2 % 1000003; }
__global__ void k(int* out) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, v = 0;
  for (int i = 0; i < t % 7; ++i) {
    switch ((t + i) % 5) {
      case 0: v += 1; break;
      case 1: for (int j = 0; j < i; ++j) { if (j == t % 3) continue; v += j; } break;
      case 2: if (v > 10) { v -= 3; break; } v += walk(t % 30, i);  break;
      case 3: if (t % 11 == 0) goto end; v ^= 5; break;
      default: v = v * 3 + 1;
    }
  }
end:
  out[t] = v;
})")));
  const uint64_t p = d.memory.allocate(1024 * 4);
  d.ok("k", {8}, {100}, args(p));
  struct H {
    static int walk(int n, int dd) {
      if (n <= 1) return dd;
      if (n & 1) return walk(3 * n + 1, dd + 1) + 1;
      return walk(n / 2, dd) * 2 % 1000003;
    }
  };
  for (int t = 0; t < 800; ++t) {
    int v = 0;
    for (int i = 0; i < t % 7; ++i) {
      switch ((t + i) % 5) {
        case 0:
          v += 1;
          break;
        case 1:
          for (int j = 0; j < i; ++j) {
            if (j == t % 3) continue;
            v += j;
          }
          break;
        case 2:
          if (v > 10) {
            v -= 3;
            break;
          }
          v += H::walk(t % 30, i);
          break;
        case 3:
          if (t % 11 == 0) goto end;
          v ^= 5;
          break;
        default:
          v = v * 3 + 1;
      }
    }
  end:
    ASSERT_EQ(d.memory.host<int>(p)[t], v) << t;
  }
}

TEST(Behaviour, BarrierForms) {
  Device d;
  ASSERT_TRUE(d.load(entry(kTwo, kRegs + std::string(R"(
.shared .align 4 .b8 s[512];
mov.u32 %r1, %tid.x; mov.u64 %rd3, s; shl.b32 %r2, %r1, 2; cvt.u64.u32 %rd4, %r2; add.s64 %rd3, %rd3, %rd4;
setp.lt.u32 %p1, %r1, 64;
@%p1 bra CONSUMER;
st.shared.u32 [%rd3], %r1;          // warps 2 and 3 produce
bar.arrive 3, 128;
bra MEET;
CONSUMER:
bar.sync 3, 128;
ld.shared.u32 %r3, [%rd3+256];
ld.param.u64 %rd1, [p0]; add.s64 %rd1, %rd1, %rd4; st.global.u32 [%rd1], %r3;
MEET:
rem.u32 %r4, %r1, 3; setp.eq.u32 %p2, %r4, 0;
bar.red.popc.u32 %r5, 1, %p2;
bar.red.and.pred %p3, 1, %p2;
bar.red.or.pred %p4, 1, %p2;
selp.u32 %r6, 1000, 0, %p3; add.u32 %r5, %r5, %r6; selp.u32 %r6, 2000, 0, %p4; add.u32 %r5, %r5, %r6;
ld.param.u64 %rd2, [p1]; add.s64 %rd2, %rd2, %rd4; st.global.u32 [%rd2], %r5;)"))));
  const uint64_t p = d.memory.allocate(512), q = d.memory.allocate(512);
  d.ok("k", {1}, {128}, args(p, q));
  for (int t = 0; t < 128; ++t) {
    if (t < 64) {
      ASSERT_EQ(d.memory.host<int>(p)[t], t + 64) << t;
    }
    ASSERT_EQ(d.memory.host<int>(q)[t], 43 + 2000) << t;
  }
}
TEST(Behaviour, MissingThreadsAreReportedAsStuck) {
  Device d;
  ASSERT_TRUE(d.load(entry(
      kTwo, kRegs + std::string("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 1, 128;"))));
  const uint64_t p = d.memory.allocate(64);
  const Result r = d.run("k", {1}, {64}, args(p, p));
  EXPECT_EQ(static_cast<int>(r.state), static_cast<int>(Execution::State::running));
  EXPECT_EQ(r.error, "stuck");
}
TEST(Behaviour, EarlyExitThenBarrier) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
__global__ void k(int* out) { __shared__ int s[96]; int t = threadIdx.x; if (t >= 70) return; s[t] = t; __syncthreads(); out[t] = s[69 - t]; })")));
  const uint64_t p = d.memory.allocate(96 * 4);
  d.ok("k", {3}, {96}, args(p));
  for (int t = 0; t < 70; ++t) ASSERT_EQ(d.memory.host<int>(p)[t], 69 - t);
}

TEST(Behaviour, RecordedAccesses) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(
      R"(__global__ void k(const float* a, float* b, int* c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[2 * i] = a[i]; if (i == 5) atomicAdd(c, 1); })")));
  const uint64_t a = d.memory.allocate(4096), b = d.memory.allocate(8192), c = d.memory.allocate(64);
  d.launch.record_accesses = true;
  const Result r = d.ok("k", {4}, {64}, args(a, b, c, 200));
  size_t writes = 0;
  bool read = false, atomic = false;
  for (const Access& x : r.accesses) {
    if (x.kind == Access::read) {
      EXPECT_EQ(x.base, a);
      EXPECT_EQ(x.end, a + 800);
      read = true;
    }
    if (x.kind == Access::write) {
      EXPECT_EQ(x.base, b + writes * 8);
      EXPECT_EQ(x.end, x.base + 4);
      writes++;
    }
    if (x.kind == Access::atomic) {
      EXPECT_EQ(x.base, c);
      EXPECT_EQ(x.end, c + 4);
      atomic = true;
    }
  }
  EXPECT_EQ(writes, 200u);
  EXPECT_TRUE(read && atomic);
}
TEST(Behaviour, OrderDependentKernelsRepeatPerSeed) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(
      R"(__global__ void k(float* s, int* order) { if (threadIdx.x == 0) { int t = atomicAdd((int*)s + 1, 1); order[t] = blockIdx.x; atomicAdd(s, 1.0f / (1 + blockIdx.x)); } })")));
  const auto run = [&](uint64_t seed, uint32_t threads) {
    const uint64_t s = d.memory.allocate(8), o = d.memory.allocate(400);
    d.launch.seed = seed;
    d.launch.threads = threads;
    d.ok("k", {100}, {32}, args(s, o));
    return d.memory.download<int>(o, 100);
  };
  EXPECT_EQ(run(7, 1), run(7, 4));
  EXPECT_NE(run(7, 1), run(8, 1));
  auto v = run(9, 4);
  std::sort(v.begin(), v.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(v[static_cast<size_t>(i)], i);
}
TEST(Behaviour, AdvanceInPieces) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(
      R"(__global__ void k(int* flag, int* out) { while (*(volatile int*)flag == 0) {} out[threadIdx.x + blockIdx.x * 64] = *(volatile int*)flag; })")));
  const uint64_t flag = d.memory.allocate(4), out = d.memory.allocate(64 * 4 * 4);
  Launch l;
  l.program = d.program.get();
  l.kernel = 0;
  l.grid = {4};
  l.block = {64};
  const Args a = args(flag, out);
  l.params = a.data();
  l.memory = &d.memory;
  std::string error;
  auto e = Execution::create(l, error);
  ASSERT_TRUE(e) << error;
  for (int k = 0; k < 3; ++k)
    ASSERT_EQ(static_cast<int>(e->advance(100000)), static_cast<int>(Execution::State::running));
  EXPECT_FALSE(e->stuck());
  *d.memory.host<int>(flag) = 42;
  ASSERT_EQ(static_cast<int>(e->advance(10'000'000)), static_cast<int>(Execution::State::done));
  for (int t = 0; t < 256; ++t) ASSERT_EQ(d.memory.host<int>(out)[t], 42);
}
TEST(Behaviour, ClusterSharedMemory) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(4) k(int* out) {
  __shared__ int s[32];
  auto c = cg::this_cluster();
  s[threadIdx.x] = c.block_rank() * 100 + threadIdx.x;
  c.sync();
  int* other = c.map_shared_rank(s, (c.block_rank() + 1) % c.num_blocks());
  out[blockIdx.x * 32 + threadIdx.x] = other[31 - threadIdx.x];
  atomicAdd(c.map_shared_rank(s, 0), 1);
  c.sync();
  if (threadIdx.x == 0 && c.block_rank() == 0) out[256 + blockIdx.x / 4] = s[0];
})")));
  const uint64_t p = d.memory.allocate(300 * 4);
  d.ok("k", {8}, {32}, args(p));
  for (int i = 0; i < 256; ++i)
    ASSERT_EQ(d.memory.host<int>(p)[i], (i / 32 % 4 + 1) % 4 * 100 + 31 - i % 32) << i;
  EXPECT_EQ(d.memory.host<int>(p)[256], 128);
  EXPECT_EQ(d.memory.host<int>(p)[257], 128);
}
TEST(Behaviour, MatrixInstructionsAndAsyncCopies) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void w(const half* a, const half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa; wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb; wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 1.0f); wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16); wmma::mma_sync(fc, fa, fb, fc); wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
__global__ void m(const half* a, const half* b, float* c) {   // a row-major 16x16, b column-major 16x8
  __shared__ __align__(16) half s[16 * 16];
  int l = threadIdx.x;
  unsigned sp = (unsigned)__cvta_generic_to_shared(s + l * 8);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group; cp.async.wait_group 0;" :: "r"(sp), "l"(a + l * 8));
  __syncthreads();
  unsigned r[4]; unsigned addr = (unsigned)__cvta_generic_to_shared(s + (l % 16) * 16 + (l / 16) * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
  unsigned q[2]; q[0] = *(const unsigned*)(b + (l / 4) * 16 + (l % 4) * 2); q[1] = *(const unsigned*)(b + (l / 4) * 16 + (l % 4) * 2 + 8);
  float f[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(q[0]), "r"(q[1]));
  for (int i = 0; i < 4; ++i) c[(l / 4 + 8 * (i / 2)) * 8 + (l % 4) * 2 + i % 2] = f[i];
})")));
  const auto half = [](int v) -> uint16_t {  // small integers
    if (v == 0) return 0;
    const uint16_t sign = v < 0 ? 0x8000 : 0;
    const unsigned m = static_cast<unsigned>(v < 0 ? -v : v);
    const int e = 31 - __builtin_clz(m);
    return static_cast<uint16_t>(sign | (e + 15) << 10 | ((m << (10 - e)) & 1023));
  };
  std::vector<uint16_t> a(256), b(256);
  const auto av = [](int r, int k) { return (r * 5 + k * 3) % 11 - 5; };
  const auto bv = [](int k, int n) { return (k * 7 + n * 2) % 9 - 4; };
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      a[static_cast<size_t>(i * 16 + j)] = half(av(i, j));
      b[static_cast<size_t>(j * 16 + i)] = half(bv(i, j));
    }
  const uint64_t pa = d.memory.upload(a), pb = d.memory.upload(b), pc = d.memory.allocate(1024);
  d.ok("w", {1}, {32}, args(pa, pb, pc));
  const auto want = [&](int r, int c) {
    int s = 0;
    for (int k = 0; k < 16; ++k) s += av(r, k) * bv(k, c);
    return static_cast<float>(s);
  };
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 16; ++c)
      ASSERT_EQ(d.memory.host<float>(pc)[r * 16 + c], 1 + want(r, c)) << r << "," << c;
  const Result res = d.ok("m", {1}, {32}, args(pa, pb, pc));
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 8; ++c) ASSERT_EQ(d.memory.host<float>(pc)[r * 8 + c], want(r, c)) << r << "," << c;
  EXPECT_EQ(res.stats.ops_tensor_fp16, 2u * 16 * 8 * 16);
}
TEST(Behaviour, AtomicForms) {
  Device d;
  ASSERT_TRUE(d.load(nvcc_ptx(R"(
__global__ void k(unsigned* u, int* s, float* f, double* g, unsigned long long* ll, unsigned short* h) {
  int t = threadIdx.x;
  atomicAdd(u, t); atomicMax(u + 1, t); atomicInc(u + 2, 9); atomicDec(u + 3, 9); atomicXor(u + 4, 1u << (t % 32)); atomicOr(u + 5, t); atomicAnd(u + 6, ~t); atomicSub(u + 7, t);
  atomicMin(s, -t); atomicAdd(f, 0.5f); atomicAdd(g, 0.25); atomicAdd(ll, 1ull << 33); atomicMax((long long*)ll + 1, -5ll + t);
  unsigned short old, seen = *(volatile unsigned short*)h;
  do { old = seen; seen = atomicCAS(h, old, (unsigned short)(old + 1)); } while (seen != old);
})")));
  const uint64_t u = d.memory.upload(std::vector<unsigned>{0, 0, 0, 0, 0, 0, ~0u, 0}),
                 s = d.memory.allocate(4), f = d.memory.allocate(4), g = d.memory.allocate(8),
                 ll = d.memory.upload(std::vector<long long>{0, -100}), h = d.memory.allocate(4);
  d.launch.threads = 2;
  d.ok("k", {1}, {256}, args(u, s, f, g, ll, h));
  const unsigned* x = d.memory.host<unsigned>(u);
  EXPECT_EQ(x[0], 255u * 128);
  EXPECT_EQ(x[1], 255u);
  EXPECT_EQ(x[2], 256u % 10);
  EXPECT_EQ(x[3], (10 - 256u % 10) % 10);
  EXPECT_EQ(x[4], 0u);
  EXPECT_EQ(x[5], 255u);
  EXPECT_EQ(x[6], ~255u);
  EXPECT_EQ(x[7], 0u - 255u * 128);
  EXPECT_EQ(*d.memory.host<int>(s), -255);
  EXPECT_EQ(*d.memory.host<float>(f), 128.0f);
  EXPECT_EQ(*d.memory.host<double>(g), 64.0);
  EXPECT_EQ(d.memory.host<long long>(ll)[0], 256ll << 33);
  EXPECT_EQ(d.memory.host<long long>(ll)[1], 250);
  EXPECT_EQ(*d.memory.host<unsigned short>(h), 256);
}

}  // namespace
}  // namespace simgpu::exec::test
