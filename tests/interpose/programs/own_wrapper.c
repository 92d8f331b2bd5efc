/* A program that ships its own functions under the driver's names, loading the driver lazily (as several
 * frameworks do). */
#include "probe.h"
static void* driver(void) {
  static void* handle;
  if (!handle) handle = dlopen("libcuda.so.1", RTLD_LAZY);
  return handle;
}
int cuInit(unsigned flags) {
  int (*real)(unsigned) = driver() ? (int (*)(unsigned))dlsym(driver(), "cuInit") : NULL;
  return real ? real(flags) : 35;
}
int cuStreamSynchronize(void* stream) {
  int (*real)(void*) = driver() ? (int (*)(void*))dlsym(driver(), "cuStreamSynchronize") : NULL;
  return real ? real(stream) : 35;
}
#ifdef WRAPPER_LIBRARY
int plugin_run(void) {
  int init = cuInit(0);
  printf("wrapped init %d sync %d\n", init, cuStreamSynchronize(0));
  report("cuStreamSynchronize");
  return 0;
}
#else
int main(void) {
  int init = cuInit(0);
  printf("wrapped init %d sync %d\n", init, cuStreamSynchronize(0));
  report("cuStreamSynchronize");
  return 0;
}
#endif
