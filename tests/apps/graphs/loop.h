// Shared by the launch-bound programs: error checks, a timed outer loop, and an order-independent checksum.
//   program [iterations] [time]
// prints the result; with `time` also microseconds per iteration as the program's own events see them.
#pragma once
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                   \
  do {                                                                                                \
    cudaError_t error_ = (call);                                                                      \
    if (error_ != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                                                   \
    }                                                                                                 \
  } while (0)

struct Arguments {
  int iterations;
  bool time;
};

inline Arguments parse(int argc, char** argv, int iterations) {
  Arguments a{iterations, false};
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "time"))
      a.time = true;
    else
      a.iterations = std::atoi(argv[i]);
  }
  return a;
}

struct Stopwatch {
  cudaEvent_t start, stop;
  explicit Stopwatch(cudaStream_t stream) {
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start, stream));
  }
  void report(cudaStream_t stream, const Arguments& a) {
    float ms = 0;
    CHECK(cudaEventRecord(stop, stream));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    if (a.time) std::printf("us_per_iteration %.3f\n", 1e3 * ms / a.iterations);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
  }
};

inline std::vector<float> ramp(size_t n, float scale) {
  std::vector<float> v(n);
  uint32_t state = 12345;
  for (auto& x : v) {
    state = state * 1664525u + 1013904223u;
    x = scale * (static_cast<float>(state >> 8) / 16777216.0f - 0.5f);
  }
  return v;
}

inline float* upload(const std::vector<float>& v) {
  float* p = nullptr;
  CHECK(cudaMalloc(&p, v.size() * sizeof(float)));
  CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice));
  return p;
}

inline float* zeros(size_t n) {
  float* p = nullptr;
  CHECK(cudaMalloc(&p, n * sizeof(float)));
  CHECK(cudaMemset(p, 0, n * sizeof(float)));
  return p;
}

// Bits of every value folded together: one flipped bit anywhere shows.
inline uint64_t digest(const float* device, size_t n) {
  std::vector<float> v(n);
  CHECK(cudaMemcpy(v.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost));
  uint64_t h = 1469598103934665603ull;
  for (float x : v) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    h = (h ^ bits) * 1099511628211ull;
  }
  return h;
}

inline cudaGraphExec_t finish_capture(cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphUpload(exec, stream));
  return exec;
}
