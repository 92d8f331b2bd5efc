// Adam over many small tensors: two kernels a tensor, the bias corrections change every step.
// -DHAND_CAPTURED: one graph, the corrections in memory, computed by a first kernel.
#include "loop.h"

namespace {
constexpr int kTensors = 40, kMost = 192;

struct Correction {
  float first, second;
  const float* where;  // two floats, or null
  __device__ float m() const { return where ? where[0] : first; }
  __device__ float v() const { return where ? where[1] : second; }
};

__global__ void gradient(float* g, const float* w, int n) {
  if (threadIdx.x < n) g[threadIdx.x] = 2 * w[threadIdx.x] - 0.125f * w[(threadIdx.x + 1) % n];
}

__global__ void adam(float* w, float* m, float* v, const float* g, int n, Correction c) {
  const int i = threadIdx.x;
  if (i >= n) return;
  m[i] = 0.9f * m[i] + 0.1f * g[i];
  v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
  w[i] -= 0.01f * (m[i] * c.m()) / (sqrtf(v[i] * c.v()) + 1e-8f);
}

// Products in the host's order and rounding, so that both programs agree bit for bit.
[[maybe_unused]] __global__ void next_correction(float* powers) {
  powers[2] *= 0.9f;
  powers[3] *= 0.99f;
  powers[0] = __fdiv_rn(1.0f, 1.0f - powers[2]);
  powers[1] = __fdiv_rn(1.0f, 1.0f - powers[3]);
}

struct Tensor {
  float *w, *m, *v, *g;
  int n;
};

void step(const std::vector<Tensor>& tensors, Correction c, cudaStream_t s) {
  for (const Tensor& t : tensors) gradient<<<1, kMost, 0, s>>>(t.g, t.w, t.n);
  for (const Tensor& t : tensors) adam<<<1, kMost, 0, s>>>(t.w, t.m, t.v, t.g, t.n, c);
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 15);
  std::vector<Tensor> tensors;
  for (int i = 0; i < kTensors; ++i) {
    const int n = 32 + (i * 37) % (kMost - 32);
    tensors.push_back({upload(ramp(n, 1.0f + 0.01f * i)), zeros(n), zeros(n), zeros(n), n});
  }
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
#ifdef HAND_CAPTURED
  float* powers = upload({0, 0, 1, 1});
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  next_correction<<<1, 1, 0, s>>>(powers);
  step(tensors, {0, 0, powers}, s);
  cudaGraphExec_t exec = finish_capture(s);
#endif
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(s);
  volatile float first = 1, second = 1;
  for (int i = 0; i < a.iterations; ++i) {
#ifdef HAND_CAPTURED
    CHECK(cudaGraphLaunch(exec, s));
#else
    first = first * 0.9f;
    second = second * 0.99f;
    step(tensors, {1.0f / (1.0f - first), 1.0f / (1.0f - second), nullptr}, s);
#endif
    if (i % 4 == 3) CHECK(cudaStreamSynchronize(s));
  }
  CHECK(cudaDeviceSynchronize());
  (void)first;
  (void)second;
  uint64_t all = 0;
  for (const Tensor& t : tensors) all = all * 31 + digest(t.w, t.n);
  std::printf("steps %d digest %016lx\n", a.iterations, static_cast<unsigned long>(all));
  watch.report(s, a);
  return 0;
}
