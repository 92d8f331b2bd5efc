// Measured process of intercept_bench: prints nanoseconds per call of the way its argument names. It is the
// same program with and without the preload.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "tests/bench/bench_rows.h"

extern "C" int cuDriverGetVersion(int*);
extern "C" int cuInit(unsigned);

int main(int argc, char** argv) {
  using shunt::bench::ns_per_call;
  if (argc < 3) return 2;
  const std::string way = argv[1];
  const uint64_t calls = strtoull(argv[2], nullptr, 10);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  using Lookup = int (*)(const char*, void**, int, uint64_t, int*);
  auto look = reinterpret_cast<Lookup>(dlsym(driver, "cuGetProcAddress_v2"));
  if (!look || cuInit(0) != 0) return 3;
  int version = 0;
  double best = 0;
  // Several short rounds, the fastest counts: the process may lose the processor in any one of them.
  for (int round = 0; round < 8; ++round) {
    double ns = 0;
    if (way == "linked") {
      ns = ns_per_call(calls, [&] { cuDriverGetVersion(&version); });
    } else if (way == "harmless") {
      void* found = nullptr;
      look("cuDriverGetVersion", &found, 13000, 0, nullptr);
      auto call = reinterpret_cast<int (*)(int*)>(found);
      ns = ns_per_call(calls, [&] { call(&version); });
    } else if (way == "hooked") {
      void* found = nullptr;
      look("cuStreamQuery", &found, 13000, 0, nullptr);
      auto call = reinterpret_cast<int (*)(void*)>(found);
      ns = ns_per_call(calls, [&] { call(nullptr); });
    } else if (way == "dlsym") {  // any other library's symbol: what a process looks up nearly always
      void* libc = dlopen("libc.so.6", RTLD_LAZY);
      ns = ns_per_call(calls / 50, [&] { shunt::bench::keep(dlsym(libc, "getpid")); });
    } else if (way == "dlsym_listed") {
      ns = ns_per_call(calls / 50, [&] { shunt::bench::keep(dlsym(driver, "cuStreamQuery")); });
    } else if (way == "proc_address") {
      void* found = nullptr;
      ns = ns_per_call(calls / 50, [&] { look("cuStreamQuery", &found, 13000, 0, nullptr); });
    } else {
      return 4;
    }
    if (round == 0 || ns < best) best = ns;
  }
  printf("%.4f\n", best);
  return 0;
}
