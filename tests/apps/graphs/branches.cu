// Every iteration takes one of four paths, chosen by the host's random numbers (some paths often, one
// rarely). -DHAND_CAPTURED: a graph per path, launched as chosen.
#include "loop.h"

namespace {
constexpr int kSize = 128;

__global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }
__global__ void shift(float* x, const float* y) { x[threadIdx.x] += 0.125f * y[kSize - 1 - threadIdx.x]; }
__global__ void fold(float* y, const float* x) {
  y[threadIdx.x] = 0.5f * y[threadIdx.x] + 0.25f * x[threadIdx.x ^ 1];
}

void path(int which, float* x, float* y, cudaStream_t s) {
  for (int i = 0; i < 3; ++i) shift<<<1, kSize, 0, s>>>(x, y);
  if (which == 0) scale<<<1, kSize, 0, s>>>(x, 0.75f);
  if (which == 1) fold<<<1, kSize, 0, s>>>(y, x);
  if (which == 2) {
    fold<<<1, kSize, 0, s>>>(y, x);
    scale<<<1, kSize, 0, s>>>(y, 0.5f);
  }
  if (which == 3) CHECK(cudaMemcpyAsync(y, x, kSize * sizeof(float), cudaMemcpyDeviceToDevice, s));
  for (int i = 0; i < 4; ++i) scale<<<1, kSize, 0, s>>>(x, 0.875f);
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 60);
  float *x = upload(ramp(kSize, 8)), *y = upload(ramp(kSize, 3));
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
#ifdef HAND_CAPTURED
  cudaGraphExec_t exec[4];
  for (int which = 0; which < 4; ++which) {
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    path(which, x, y, s);
    exec[which] = finish_capture(s);
  }
#endif
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(s);
  uint32_t state = 7;
  for (int i = 0; i < a.iterations; ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t dice = state >> 24;
    const int which = dice < 150 ? 0 : dice < 215 ? 1 : dice < 250 ? 2 : 3;
#ifdef HAND_CAPTURED
    CHECK(cudaGraphLaunch(exec[which], s));
#else
    path(which, x, y, s);
#endif
    if (i % 16 == 15) CHECK(cudaStreamSynchronize(s));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("iterations %d digest %016lx %016lx\n", a.iterations,
              static_cast<unsigned long>(digest(x, kSize)), static_cast<unsigned long>(digest(y, kSize)));
  watch.report(s, a);
  return 0;
}
