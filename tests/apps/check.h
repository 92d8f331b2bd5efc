// What every program here shares: stop at the first unexpected CUDA error, seeded inputs, and a digest of the
// results that goes to stdout so that two runs of a program can be compared by their output alone.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CUDA(call)                                                                  \
  do {                                                                              \
    const cudaError_t status_ = (call);                                             \
    if (status_ != cudaSuccess) {                                                   \
      std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(status_)); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)

struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 2654435761u + 88172645463325252u) {}
  uint32_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 16);
  }
  float unit() { return static_cast<float>(next() >> 8) * (1.0f / 16777216.0f); }  // [0, 1)
};

inline uint64_t digest(const void* data, size_t bytes, uint64_t h = 1469598103934665603u) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) h = (h ^ p[i]) * 1099511628211u;
  return h;
}
template <typename T>
uint64_t digest(const std::vector<T>& v) {
  return digest(v.data(), v.size() * sizeof(T));
}

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// One line a check; the program's exit status is the number of failed ones.
struct Report {
  int failed = 0;
  void check(const char* what, bool ok) {
    std::printf("%s: %s\n", what, ok ? "ok" : "WRONG");
    failed += !ok;
  }
  void check(const char* what, bool ok, uint64_t value) {
    std::printf("%s: %s %016llx\n", what, ok ? "ok" : "WRONG", static_cast<unsigned long long>(value));
    failed += !ok;
  }
  int finish() const {
    std::printf("%s\n", failed ? "FAILED" : "PASSED");
    return failed ? 1 : 0;
  }
};

template <typename T>
T* device_copy(const std::vector<T>& v) {
  T* p = nullptr;
  CUDA(cudaMalloc(&p, v.size() * sizeof(T)));
  CUDA(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}
template <typename T>
T* device_array(size_t n) {
  T* p = nullptr;
  CUDA(cudaMalloc(&p, n * sizeof(T)));
  return p;
}
template <typename T>
std::vector<T> host_copy(const T* p, size_t n) {
  std::vector<T> v(n);
  CUDA(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
  return v;
}
