// The host learns of progress by reading mapped memory, with no call into CUDA while it waits.
// -DHAND_CAPTURED: an iteration's kernels in one graph.
#include "loop.h"

namespace {
constexpr int kSize = 128;

__global__ void work(float* x, float by) { x[threadIdx.x] = x[threadIdx.x] * by + 0.01f; }
__global__ void publish(volatile int* flag, int* counter) {
  __threadfence_system();
  *flag = ++*counter;
}

void iteration(float* x, int* flag, int* counter, cudaStream_t s) {
  for (int i = 0; i < 8; ++i) work<<<1, kSize, 0, s>>>(x, 0.99f);
  publish<<<1, 1, 0, s>>>(flag, counter);
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 20);
  float* x = upload(ramp(kSize, 8));
  int* counter = reinterpret_cast<int*>(zeros(1));
  int *flag, *flag_device;
  CHECK(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&flag_device, flag, 0));
  *flag = 0;
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
#ifdef HAND_CAPTURED
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  iteration(x, flag_device, counter, s);
  cudaGraphExec_t exec = finish_capture(s);
#endif
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(s);
  for (int i = 0; i < a.iterations; ++i) {
#ifdef HAND_CAPTURED
    CHECK(cudaGraphLaunch(exec, s));
#else
    iteration(x, flag_device, counter, s);
#endif
    while (*static_cast<volatile int*>(flag) != i + 1) {
    }
  }
  CHECK(cudaStreamSynchronize(s));
  std::printf("iterations %d flag %d digest %016lx\n", a.iterations, *flag,
              static_cast<unsigned long>(digest(x, kSize)));
  watch.report(s, a);
  return 0;
}
