// A program that captures graphs itself and launches kernels around them.
// -DHAND_CAPTURED: everything of an iteration in one graph, its own part as a child.
#include "loop.h"

namespace {
constexpr int kSize = 128;

__global__ void work(float* x, float by) {
  x[threadIdx.x] = x[threadIdx.x] * by + 0.01f * x[threadIdx.x] * x[threadIdx.x];
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 20);
  float* x = upload(ramp(kSize, 8));
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  cudaGraph_t own;
  cudaGraphExec_t own_exec;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 6; ++i) work<<<1, 32, 0, s>>>(x + 32 * (i % 3), 0.9f);
  CHECK(cudaStreamEndCapture(s, &own));
#ifdef HAND_CAPTURED
  cudaGraph_t whole;
  cudaGraphNode_t nodes[6];
  CHECK(cudaGraphCreate(&whole, 0));
  float by[] = {0.97f, 0.98f};
  cudaKernelNodeParams k{};
  k.func = reinterpret_cast<void*>(work);
  k.gridDim = dim3(1);
  k.blockDim = dim3(kSize);
  for (int i = 0; i < 5; ++i) {
    void* arguments[] = {&x, &by[i % 2]};
    k.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&nodes[i], whole, i ? &nodes[i - 1] : nullptr, i ? 1 : 0, &k));
  }
  CHECK(cudaGraphAddChildGraphNode(&nodes[5], whole, &nodes[4], 1, own));
  CHECK(cudaGraphInstantiate(&own_exec, whole, 0));
  CHECK(cudaGraphDestroy(whole));
#else
  CHECK(cudaGraphInstantiate(&own_exec, own, 0));
#endif
  CHECK(cudaGraphDestroy(own));
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(s);
  for (int i = 0; i < a.iterations; ++i) {
#ifndef HAND_CAPTURED
    for (int j = 0; j < 5; ++j) work<<<1, kSize, 0, s>>>(x, j % 2 ? 0.98f : 0.97f);
#endif
    CHECK(cudaGraphLaunch(own_exec, s));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("iterations %d digest %016lx\n", a.iterations, static_cast<unsigned long>(digest(x, kSize)));
  watch.report(s, a);
  return 0;
}
