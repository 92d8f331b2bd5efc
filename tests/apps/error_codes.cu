// Provokes errors and prints their names. What poisons a context runs in a process of its own: the program
// starts itself again with the case's name.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void store(int* p, int v) { p[threadIdx.x] = v; }
__global__ void trap() { asm volatile("trap;"); }
__global__ void wide_load(const int* p, long long* out) { *out = *reinterpret_cast<const long long*>(p + 1); }
__global__ void shared_store(int where) {
  __shared__ int s[32];
  volatile int* p = s;
  p[where] = 1;
}

void say(const char* what, cudaError_t e) { std::printf("%s: %s\n", what, cudaGetErrorName(e)); }

int sticky(const char* name) {
  int* p = device_array<int>(64);
  if (!std::strcmp(name, "illegal address")) {
    store<<<1, 32>>>(reinterpret_cast<int*>(0x10), 1);
  } else if (!std::strcmp(name, "freed memory")) {
    int* large;
    CUDA(cudaMalloc(&large, 64 << 20));
    CUDA(cudaFree(large));
    store<<<1, 32>>>(large + (8 << 20), 1);
  } else if (!std::strcmp(name, "misaligned")) {
    wide_load<<<1, 1>>>(p, reinterpret_cast<long long*>(p + 8));
  } else if (!std::strcmp(name, "trap")) {
    trap<<<1, 1>>>();
  } else if (!std::strcmp(name, "shared out of range")) {
    shared_store<<<1, 1>>>(1 << 22);
  } else {
    return 2;
  }
  say(name, cudaDeviceSynchronize());
  say("  next call", cudaMemset(p, 0, 4));
  say("  last error", cudaGetLastError());
  say("  still", cudaDeviceSynchronize());
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1) return sticky(argv[1]);
  Report report;
  for (const char* name : {"illegal address", "freed memory", "misaligned", "trap", "shared out of range"}) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", argv[0], name, static_cast<char*>(nullptr));
      _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    report.check(name, WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  int* p = device_array<int>(64);
  store<<<1, 2048>>>(p, 1);
  say("2048 threads a block", cudaGetLastError());
  store<<<0, 32>>>(p, 1);
  say("no block", cudaGetLastError());
  store<<<dim3(1, 70000), 32>>>(p, 1);
  say("grid too high", cudaGetLastError());
  store<<<1, 32, 1 << 20>>>(p, 1);
  say("1 MiB of shared memory", cudaGetLastError());
  say("last error is cleared", cudaGetLastError());
  say("no memory", cudaMalloc(&p, 1ull << 45));
  say("peek", cudaPeekAtLastError());
  say("get", cudaGetLastError());
  say("then", cudaPeekAtLastError());
  say("copy kind", cudaMemcpy(p, p, 4, static_cast<cudaMemcpyKind>(17)));
  cudaGetLastError();
  int host = 0;
  say("free of a host variable", cudaFree(&host));
  cudaGetLastError();
  int* twice = device_array<int>(4);
  CUDA(cudaFree(twice));
  say("double free", cudaFree(twice));
  cudaGetLastError();
  say("device -1", cudaSetDevice(-1));
  cudaGetLastError();
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaEvent_t event;
  CUDA(cudaEventCreate(&event));
  float ms;
  say("events never recorded", cudaEventElapsedTime(&ms, event, event));
  cudaGetLastError();
  say("null pointer", cudaMemset(nullptr, 0, 16));
  cudaGetLastError();
  say("zero bytes", cudaMemset(nullptr, 0, 0));
  cudaDeviceProp prop;
  say("properties of device 99", cudaGetDeviceProperties(&prop, 99));
  cudaGetLastError();
  std::printf("%s | %s\n", cudaGetErrorString(cudaErrorInvalidConfiguration),
              cudaGetErrorString(cudaErrorIllegalAddress));
  say("the context still works", cudaDeviceSynchronize());
  return report.finish();
}
