// Several host threads on the legacy default stream, each with its own buffer, taking turns through a mutex
// at the end. -DHAND_CAPTURED: a graph per thread, captured on a stream of its own and launched into the
// default stream.
#include <mutex>
#include <thread>

#include "loop.h"

namespace {
constexpr int kSize = 96, kThreads = 3;

__global__ void work(float* x, float by) {
  x[threadIdx.x] = x[threadIdx.x] * by + 0.02f * x[threadIdx.x + 32];
}

void iteration(float* x, cudaStream_t s) {
  for (int i = 0; i < 6; ++i) work<<<1, 32, 0, s>>>(x, i % 2 ? 0.95f : 0.96f);
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 15);
  float* buffers[kThreads];
  for (int t = 0; t < kThreads; ++t) buffers[t] = upload(ramp(kSize, 1.0f + t));
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(nullptr);
#ifdef HAND_CAPTURED
  std::mutex turn;  // one capture at a time
#endif
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
#ifdef HAND_CAPTURED
      cudaStream_t s;
      CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
      cudaGraphExec_t exec;
      {
        std::lock_guard<std::mutex> lock(turn);
        CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        iteration(buffers[t], s);
        exec = finish_capture(s);
        CHECK(cudaStreamSynchronize(s));
      }
#endif
      for (int i = 0; i < a.iterations; ++i) {
#ifdef HAND_CAPTURED
        CHECK(cudaGraphLaunch(exec, nullptr));
#else
        iteration(buffers[t], nullptr);
#endif
        if (i % 5 == 4) CHECK(cudaStreamSynchronize(nullptr));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(cudaDeviceSynchronize());
  uint64_t all = 0;
  for (float* b : buffers) all = all * 31 + digest(b, kSize);
  std::printf("threads %d iterations %d digest %016lx\n", kThreads, a.iterations,
              static_cast<unsigned long>(all));
  watch.report(nullptr, a);
  return 0;
}
