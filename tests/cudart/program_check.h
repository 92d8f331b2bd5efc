// What the test programs share: a check that names the place, and sections chosen on the command line so that
// each runs in a process of its own.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

inline int failures = 0;

inline void expect(bool good, const char* what, const char* file, int line) {
  if (good) return;
  ++failures;
  std::printf("%s:%d: failed: %s\n", file, line, what);
}
inline void expect_code(cudaError_t got, cudaError_t wanted, const char* what, const char* file, int line) {
  if (got == wanted) return;
  ++failures;
  std::printf("%s:%d: %s gave %s, not %s\n", file, line, what, cudaGetErrorName(got),
              cudaGetErrorName(wanted));
}
#define EXPECT(condition) expect(condition, #condition, __FILE__, __LINE__)
#define OK(call) expect_code(call, cudaSuccess, #call, __FILE__, __LINE__)
#define GIVES(code, call) expect_code(call, code, #call, __FILE__, __LINE__)

struct Section {
  const char* name;
  void (*run)();
};

template <int N>
int run_section(const Section (&sections)[N], int argc, char** argv) {
  for (const Section& section : sections) {
    if (argc < 2 || std::strcmp(argv[1], section.name) != 0) continue;
    section.run();
    std::printf("%s: %s\n", section.name, failures == 0 ? "passed" : "FAILED");
    return failures == 0 ? 0 : 1;
  }
  std::printf("sections:");
  for (const Section& section : sections) std::printf(" %s", section.name);
  std::printf("\n");
  return 2;
}
