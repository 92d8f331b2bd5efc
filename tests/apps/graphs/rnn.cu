// A recurrent network over a sequence: every step has its own input and output pointers. A batch is 32 steps.
// -DHAND_CAPTURED: the 32 steps of a batch in one graph (its pointers repeat from batch to batch).
#include "loop.h"

namespace {
constexpr int kWidth = 64, kSteps = 32;

__global__ void cell(float* out, const float* h, const float* x, const float* wh, const float* wx) {
  float sum = 0;
  for (int i = 0; i < kWidth; ++i)
    sum += wh[i * kWidth + threadIdx.x] * h[i] + wx[i * kWidth + threadIdx.x] * x[i];
  out[threadIdx.x] = tanhf(sum);
}

__global__ void gate(float* h, const float* x) {
  h[threadIdx.x] = h[threadIdx.x] * (1 / (1 + expf(-x[threadIdx.x])));
}

void batch(float* outputs, const float* inputs, const float* wh, const float* wx, cudaStream_t s) {
  for (int t = 0; t < kSteps; ++t) {
    cell<<<1, kWidth, 0, s>>>(outputs + (t + 1) * kWidth, outputs + t * kWidth, inputs + t * kWidth, wh, wx);
    gate<<<1, kWidth, 0, s>>>(outputs + (t + 1) * kWidth, inputs + t * kWidth);
  }
  CHECK(cudaMemcpyAsync(outputs, outputs + kSteps * kWidth, kWidth * sizeof(float), cudaMemcpyDeviceToDevice,
                        s));
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 10);
  float *wh = upload(ramp(kWidth * kWidth, 0.4f)), *wx = upload(ramp(kWidth * kWidth, 0.5f));
  float *inputs = upload(ramp(kSteps * kWidth, 2)), *outputs = zeros((kSteps + 1) * kWidth);
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
#ifdef HAND_CAPTURED
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  batch(outputs, inputs, wh, wx, s);
  cudaGraphExec_t exec = finish_capture(s);
#endif
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(s);
  for (int i = 0; i < a.iterations; ++i) {
#ifdef HAND_CAPTURED
    CHECK(cudaGraphLaunch(exec, s));
#else
    batch(outputs, inputs, wh, wx, s);
#endif
  }
  CHECK(cudaStreamSynchronize(s));
  std::printf("batches %d digest %016lx\n", a.iterations,
              static_cast<unsigned long>(digest(outputs, (kSteps + 1) * kWidth)));
  watch.report(s, a);
  return 0;
}
