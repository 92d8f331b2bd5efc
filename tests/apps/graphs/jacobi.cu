// Heat equation by Jacobi sweeps between two buffers, the residual looked at every 16 sweeps.
// -DHAND_CAPTURED: sixteen sweeps in one graph.
#include "loop.h"

namespace {
constexpr int kSide = 64, kCheck = 16;

__global__ void sweep(float* out, const float* in) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x == 0 || y == 0 || x == kSide - 1 || y == kSide - 1) {
    out[y * kSide + x] = in[y * kSide + x];
    return;
  }
  out[y * kSide + x] = 0.25f * (in[y * kSide + x - 1] + in[y * kSide + x + 1] + in[(y - 1) * kSide + x] +
                                in[(y + 1) * kSide + x]);
}

__global__ void residual(float* out, const float* a, const float* b) {
  __shared__ float worst[64];
  float mine = 0;
  for (int i = threadIdx.x; i < kSide * kSide; i += 64) mine = fmaxf(mine, fabsf(a[i] - b[i]));
  worst[threadIdx.x] = mine;
  __syncthreads();
  for (int step = 32; step > 0; step /= 2) {
    if (threadIdx.x < step) worst[threadIdx.x] = fmaxf(worst[threadIdx.x], worst[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = worst[0];
}

void round_of(float* a, float* b, float* difference, float* host, cudaStream_t s) {
  for (int i = 0; i < kCheck; i += 2) {
    sweep<<<dim3(kSide / 32, kSide), 32, 0, s>>>(b, a);
    sweep<<<dim3(kSide / 32, kSide), 32, 0, s>>>(a, b);
  }
  residual<<<1, 64, 0, s>>>(difference, a, b);
  CHECK(cudaMemcpyAsync(host, difference, sizeof(float), cudaMemcpyDeviceToHost, s));
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 12);
  std::vector<float> start = ramp(kSide * kSide, 0);
  for (int i = 0; i < kSide; ++i) start[i] = 100, start[i * kSide] = static_cast<float>(i);
  float *u = upload(start), *v = upload(start), *difference = zeros(1), *host;
  CHECK(cudaMallocHost(&host, sizeof(float)));
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
#ifdef HAND_CAPTURED
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  round_of(u, v, difference, host, s);
  cudaGraphExec_t exec = finish_capture(s);
#endif
  Stopwatch watch(s);
  float last = 0;
  for (int i = 0; i < a.iterations; ++i) {
#ifdef HAND_CAPTURED
    CHECK(cudaGraphLaunch(exec, s));
#else
    round_of(u, v, difference, host, s);
#endif
    CHECK(cudaStreamSynchronize(s));
    last = *host;
  }
  CHECK(cudaGetLastError());
  std::printf("sweeps %d residual %a digest %016lx\n", kCheck * a.iterations, last,
              static_cast<unsigned long>(digest(u, kSide * kSide)));
  watch.report(s, a);
  return 0;
}
