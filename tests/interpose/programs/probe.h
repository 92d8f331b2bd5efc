// What the test programs share. They know nothing of shunt except the counters of the stub runtime, which
// they ask for only when the test says where it is; without the preload those lines read "-".
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*LaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            void*, void**, void**);

static inline int launch(LaunchKernel f) {
  return f((void*)1, 2, 3, 4, 5, 6, 7, 8, (void*)9, (void**)10, (void**)11);
}

static inline void* stub_rt(const char* symbol) {
  const char* path = getenv("SHUNT_RT_PATH");
  void* handle = path && getenv("LD_PRELOAD") ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  return handle ? dlsym(handle, symbol) : NULL;
}

// Calls of a hook the stub runtime counted; printed to stderr, since stdout must not differ with and without
// the preload.
static inline void report(const char* symbol) {
  long (*calls)(const char*) = (long (*)(const char*))stub_rt("stub_rt_calls");
  if (calls)
    fprintf(stderr, "hook %s %ld\n", symbol, calls(symbol));
  else
    fprintf(stderr, "hook %s -\n", symbol);
}
