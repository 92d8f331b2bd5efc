/* A library whose getenv-like wrapper finds the next definition: RTLD_NEXT must be relative to this library,
 * not to the interposer. Built twice, once as the first and once as the second definition of next_value. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#ifdef FIRST
int next_value(void) {
  int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "next_value");
  return next ? 10 + next() : -1;
}
int next_versioned(void) {
  int (*next)(void) = (int (*)(void))dlvsym(RTLD_NEXT, "next_value", "NEXT_1");
  return next ? 20 + next() : -1;
}
#else
int next_value(void) { return 1; }
#endif
