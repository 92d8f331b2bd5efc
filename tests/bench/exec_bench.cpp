// Speed of the PTX executor: thread-instructions per second of one core (thread CPU time), bounds checks on.
#include <ctime>

#include "tests/bench/bench_rows.h"
#include "tests/exec/fixture.h"

using namespace simgpu::exec;
using namespace simgpu::exec::test;

namespace {

const char* const kSource = R"(
__global__ void vecadd(const float* a, const float* b, float* c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * 16 + x, r = blockIdx.y * 16 + y;
  float acc = 0;
  for (int k = 0; k < n; k += 16) {
    ta[y][x] = a[r * n + k + x]; tb[y][x] = b[(k + y) * n + col];
    __syncthreads();
    for (int j = 0; j < 16; ++j) acc += ta[y][j] * tb[j][x];
    __syncthreads();
  }
  c[r * n + col] = acc;
}
__global__ void reduce(const float* in, float* out, int n) {
  __shared__ float s[256];
  int t = threadIdx.x; float sum = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) sum += in[i];
  s[t] = sum; __syncthreads();
  for (int w = 128; w > 0; w /= 2) { if (t < w) s[t] += s[t + w]; __syncthreads(); }
  if (t == 0) out[blockIdx.x] = s[0];
}
__global__ void collatz(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
  unsigned v = i + 1; int steps = 0;
  while (v != 1) { v = (v & 1) ? 3 * v + 1 : v / 2; steps++; }
  out[i] = steps;
}
__global__ void mandel(int* out, int w) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  float cr = x * 3.0f / w - 2.0f, ci = y * 2.0f / gridDim.y - 1.0f, r = 0, i = 0; int k = 0;
  while (k < 200 && r * r + i * i < 4.0f) { float t = r * r - i * i + cr; i = 2 * r * i + ci; r = t; k++; }
  out[y * w + x] = k;
}
__global__ void gather(const float* a, const int* idx, float* c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[idx[i]]; }
__global__ void nbody(const float4* p, float4* o, int n) {
  __shared__ float4 s[128]; float4 me = p[blockIdx.x * 128 + threadIdx.x]; float ax = 0, ay = 0, az = 0;
  for (int k = 0; k < n; k += 128) { s[threadIdx.x] = p[k + threadIdx.x]; __syncthreads();
    for (int j = 0; j < 128; ++j) { float dx = s[j].x - me.x, dy = s[j].y - me.y, dz = s[j].z - me.z, d = dx * dx + dy * dy + dz * dz + 0.01f, inv = rsqrtf(d), q = s[j].w * inv * inv * inv; ax += dx * q; ay += dy * q; az += dz * q; }
    __syncthreads(); }
  o[blockIdx.x * 128 + threadIdx.x] = make_float4(ax, ay, az, 0);
}
__global__ void histogram(const unsigned char* in, unsigned* out, int n) {
  __shared__ unsigned s[256]; s[threadIdx.x] = 0; __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&s[in[i]], 1);
  __syncthreads(); atomicAdd(&out[threadIdx.x], s[threadIdx.x]);
}
__global__ void warpsum(const float* in, float* out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; float v = in[i]; for (int r = 0; r < 8; ++r) for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o) * 0.01f; out[i] = v; }
)";

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The matmul kernel's work as a plain loop nest.
__attribute__((noinline, optimize("O2"))) void native_matmul(const float* a, const float* b, float* c,
                                                             int n) {
  for (int r = 0; r < n; ++r) {
    for (int col = 0; col < n; ++col) {
      float acc = 0;
      for (int k = 0; k < n; ++k) acc += a[r * n + k] * b[k * n + col];
      c[r * n + col] = acc;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  shunt::bench::Rows rows(argc, argv);
  Device d;
  if (!d.load(nvcc_ptx(kSource))) return 1;
  const int n = 1 << 20;
  const uint64_t a = d.memory.upload(std::vector<float>(n, 1.5f)),
                 b = d.memory.upload(std::vector<float>(n, 0.5f)), c = d.memory.allocate(n * 4u);
  std::vector<int> idx(n);
  for (int i = 0; i < n; ++i)
    idx[static_cast<size_t>(i)] = static_cast<int>(static_cast<uint32_t>(i) * 2654435761u % n);
  const uint64_t pi = d.memory.upload(idx);
  const auto seconds = [&](const char* kernel, Dim3 grid, Dim3 block, const Args& p, uint64_t* instructions) {
    const double t = cpu_seconds();
    const Result r = d.ok(kernel, grid, block, p);
    if (instructions) *instructions = r.stats.thread_instructions;
    return cpu_seconds() - t;
  };
  const auto row = [&](const char* name, const char* kernel, std::optional<double> budget, Dim3 grid,
                       Dim3 block, const Args& p) {
    const auto v = rows.repeat([&] {
      uint64_t k = 0;
      const double t = seconds(kernel, grid, block, p, &k);
      return static_cast<double>(k) / t * 1e-6;
    });
    rows.emit({name, "million thread-instructions/s", "", budget, "higher"}, v);
  };
  row("vecadd_minstr_s", "vecadd", 800, {n / 256}, {256}, args(a, b, c, n));
  row("matmul_minstr_s", "matmul", 800, {16, 16}, {16, 16}, args(a, b, c, 256));
  row("reduce_minstr_s", "reduce", 800, {64}, {256}, args(a, c, n));
  row("divergent_minstr_s", "collatz", 200, {256}, {256}, args(c, 65536));
  row("mandelbrot_minstr_s", "mandel", 200, {4, 256}, {256}, args(c, 1024));
  row("gather_minstr_s", "gather", {}, {n / 256}, {256}, args(a, pi, c, n));
  row("nbody_minstr_s", "nbody", {}, {16}, {128}, args(a, c, 2048));
  row("histogram_minstr_s", "histogram", {}, {64}, {256}, args(a, c, n));
  row("shuffle_minstr_s", "warpsum", {}, {1024}, {256}, args(a, c, n));
  const auto native = rows.alternate(
      [&] {
        return seconds("matmul", {16, 16}, {16, 16}, args(a, b, c, 256), nullptr);
      },
      [&] {
        const double t = cpu_seconds();
        native_matmul(d.memory.host<float>(a), d.memory.host<float>(b), d.memory.host<float>(c), 256);
        return cpu_seconds() - t;
      });
  rows.emit({"native_ratio_matmul", "x", "plain C++ at -O2, one core", {}, "lower"}, native.ratio(),
            native.baseline);
  const auto recorded = rows.alternate(
      [&] {
        d.launch.record_accesses = true;
        const double t = seconds("vecadd", {n / 256}, {256}, args(a, b, c, n), nullptr);
        d.launch.record_accesses = false;
        return t;
      },
      [&] { return seconds("vecadd", {n / 256}, {256}, args(a, b, c, n), nullptr); });
  rows.emit({"access_recording_slowdown", "x", "the same kernel without recording", 5, "lower"},
            recorded.ratio(), recorded.baseline);
  return rows.finish();
}
