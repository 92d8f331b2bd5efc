// Two streams that fork and join by events in every iteration: left and right halves, then a merge.
// -DHAND_CAPTURED: the whole diamond captured across both streams.
#include "loop.h"

namespace {
constexpr int kSize = 256;

__global__ void mix(float* out, const float* in, float by) {
  out[threadIdx.x] = in[threadIdx.x] * by + 0.25f * in[(threadIdx.x + 1) % kSize];
}
__global__ void merge(float* out, const float* a, const float* b) {
  out[threadIdx.x] = 0.5f * (a[threadIdx.x] + b[threadIdx.x]);
}

struct Pipeline {
  float *x, *left, *right, *left2, *right2;
  cudaStream_t a, b;
  cudaEvent_t fork, join;
};

void iteration(const Pipeline& p) {
  CHECK(cudaEventRecord(p.fork, p.a));
  CHECK(cudaStreamWaitEvent(p.b, p.fork, 0));
  for (int i = 0; i < 4; ++i) {
    mix<<<1, kSize, 0, p.a>>>(i % 2 ? p.left : p.left2, i == 0 ? p.x : i % 2 ? p.left2 : p.left, 0.7f);
    mix<<<1, kSize, 0, p.b>>>(i % 2 ? p.right : p.right2, i == 0 ? p.x : i % 2 ? p.right2 : p.right, 0.6f);
  }
  CHECK(cudaEventRecord(p.join, p.b));
  CHECK(cudaStreamWaitEvent(p.a, p.join, 0));
  merge<<<1, kSize, 0, p.a>>>(p.x, p.left, p.right);
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 40);
  Pipeline p;
  p.x = upload(ramp(kSize, 4));
  for (float** q : {&p.left, &p.right, &p.left2, &p.right2}) *q = zeros(kSize);
  CHECK(cudaStreamCreateWithFlags(&p.a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&p.b, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&p.fork, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&p.join, cudaEventDisableTiming));
#ifdef HAND_CAPTURED
  CHECK(cudaStreamBeginCapture(p.a, cudaStreamCaptureModeGlobal));
  iteration(p);
  cudaGraphExec_t exec = finish_capture(p.a);
#endif
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(p.a);
  for (int i = 0; i < a.iterations; ++i) {
#ifdef HAND_CAPTURED
    CHECK(cudaGraphLaunch(exec, p.a));
#else
    iteration(p);
#endif
    if (i % 8 == 7) CHECK(cudaStreamSynchronize(p.a));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("iterations %d digest %016lx\n", a.iterations, static_cast<unsigned long>(digest(p.x, kSize)));
  watch.report(p.a, a);
  return 0;
}
