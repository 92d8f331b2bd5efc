/* Linked against libcuda.so.1 (the fake one): every call goes through the exported symbols, no look-up is
 * made before. */
#include <errno.h>

#include "probe.h"
int cuInit(unsigned);
int cuDeviceGetCount(int*);
int cuLaunchKernelEx(const void*, void*, void**, void**);
int cuMemAlloc(unsigned*, unsigned);
int cuMemAlloc_v2(uint64_t*, size_t);
int cuParamSetf(void*, int, float);
int cuStreamSynchronize(void*);
int cuStreamSynchronize_ptsz(void*);
int cuDriverGetVersion(int*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**);

/* Before main and, in a program, before the constructors of libraries that come later: the slots must work
 * already. */
static int early_code, early_errno;
__attribute__((constructor)) static void early(void) {
  int version = 0;
  errno = 99; /* the first call of all opens the runtime */
  early_code = cuDriverGetVersion(&version);
  early_errno = errno;
  early_code += version;
}

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) return printf("ex %d\n", cuLaunchKernelEx(0, 0, 0, 0)), 0;
  unsigned old_pointer = 0;
  uint64_t pointer = 0;
  printf("early %d errno %d\n", early_code, early_errno);
  printf("cuInit %d\n", cuInit(0));
  int code = cuMemAlloc(&old_pointer, 77);
  printf("cuMemAlloc %d %u\n", code, old_pointer);
  code = cuMemAlloc_v2(&pointer, (size_t)1 << 40);
  printf("cuMemAlloc_v2 %d %llu\n", code, (unsigned long long)pointer);
  printf("cuParamSetf %d\n", cuParamSetf((void*)7, 8, 2.5f));
  printf("cuLaunchKernel %d %d\n", launch(cuLaunchKernel), launch(cuLaunchKernel));
  printf("sync %d %d\n", cuStreamSynchronize(0), cuStreamSynchronize_ptsz(0));
  /* Our own loader calls must leave no message behind. */
  int devices = 0;
  code = cuDeviceGetCount(&devices);
  const char* message = dlerror();
  printf("devices %d %d dlerror %s\n", code, devices, message ? message : "none");
  report("cuInit");
  report("cuMemAlloc");
  report("cuMemAlloc_v2");
  report("cuParamSetf");
  report("cuLaunchKernel");
  report("cuStreamSynchronize_ptsz");
  report("cuDriverGetVersion");
  return 5;
}
