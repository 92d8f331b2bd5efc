// A libcuda.so.1 whose functions do nothing, so that what is measured is the way to them.
#include <stdint.h>
#include <string.h>
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
EXPORT int cuStreamQuery(void*) { return 0; }
EXPORT int cuGetProcAddress_v2(const char* name, void** result, int, uint64_t, int*) {
  *result = !strcmp(name, "cuDriverGetVersion") ? reinterpret_cast<void*>(cuDriverGetVersion)
            : !strcmp(name, "cuStreamQuery")    ? reinterpret_cast<void*>(cuStreamQuery)
            : !strcmp(name, "cuInit")           ? reinterpret_cast<void*>(cuInit)
                                                : nullptr;
  return 0;
}
