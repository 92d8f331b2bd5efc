/* Linked against libcuda.so.1 (the fake one): every call goes through the exported symbols, no look-up is
 * made before. */
#include "probe.h"
int cuInit(unsigned);
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
static int early_code;
__attribute__((constructor)) static void early(void) {
  int version = 0;
  early_code = cuDriverGetVersion(&version);
  early_code += version;
}

int main(void) {
  unsigned old_pointer = 0;
  uint64_t pointer = 0;
  printf("early %d\n", early_code);
  printf("cuInit %d\n", cuInit(0));
  int code = cuMemAlloc(&old_pointer, 77);
  printf("cuMemAlloc %d %u\n", code, old_pointer);
  code = cuMemAlloc_v2(&pointer, (size_t)1 << 40);
  printf("cuMemAlloc_v2 %d %llu\n", code, (unsigned long long)pointer);
  printf("cuParamSetf %d\n", cuParamSetf((void*)7, 8, 2.5f));
  printf("cuLaunchKernel %d %d\n", launch(cuLaunchKernel), launch(cuLaunchKernel));
  printf("sync %d %d\n", cuStreamSynchronize(0), cuStreamSynchronize_ptsz(0));
  report("cuInit");
  report("cuMemAlloc");
  report("cuMemAlloc_v2");
  report("cuParamSetf");
  report("cuLaunchKernel");
  report("cuStreamSynchronize_ptsz");
  report("cuDriverGetVersion");
  return 5;
}
