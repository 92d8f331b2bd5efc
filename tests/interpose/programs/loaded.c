/* dlopen + look-ups of every kind; argv[1] picks one. */
#define _GNU_SOURCE
#include <errno.h>

#include "probe.h"

typedef int (*Proc)(const char*, void**, int, uint64_t);
typedef int (*Proc2)(const char*, void**, int, uint64_t, int*);
typedef int (*Alloc)(uint64_t*, size_t);
typedef int (*Sync)(void*);

static void* driver;

static int alloc_code(void* f) {
  uint64_t pointer = 0;
  return f ? ((Alloc)f)(&pointer, 64) : -1;
}

static void by_dlsym(int versioned) {
#define GET(name) (versioned ? dlvsym(driver, name, "") : dlsym(driver, name))
  /* The fake exports no versions, so dlvsym must fail, with and without the preload. */
  int (*init)(unsigned) = (int (*)(unsigned))GET("cuInit");
  printf("cuInit %s\n", init ? "found" : "absent");
  if (!init) return;
  printf("init %d\n", init(0));
  printf("alloc %d\n", alloc_code(GET("cuMemAlloc_v2")));
  printf("launch %d\n", launch((LaunchKernel)GET("cuLaunchKernel")));
  printf("sync %d\n", ((Sync)GET("cuStreamSynchronize_ptsz"))(0));
  printf("twice %d\n", GET("cuLaunchKernel") == GET("cuLaunchKernel"));
  report("cuInit");
  report("cuMemAlloc_v2");
  report("cuLaunchKernel");
  report("cuStreamSynchronize_ptsz");
}

static void by_proc(Proc2 proc2, Proc proc, int version, uint64_t flags) {
  static const char* const names[] = {"cuInit",           "cuMemAlloc",
                                      "cuMemcpyHtoD",     "cuStreamSynchronize",
                                      "cuLaunchKernelEx", "cuStreamGetCaptureInfo",
                                      "cuNoSuchThing"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; ++i) {
    void* f = NULL;
    int status = -1;
    int code = proc2 ? proc2(names[i], &f, version, flags, &status) : proc(names[i], &f, version, flags);
    printf("%s code %d status %d %s", names[i], code, status, f ? "found" : "null");
    if (f && !strcmp(names[i], "cuInit")) printf(" -> %d", ((int (*)(unsigned))f)(0));
    if (f && !strcmp(names[i], "cuMemAlloc")) printf(" -> %d", alloc_code(f));
    if (f && !strcmp(names[i], "cuMemcpyHtoD"))
      printf(" -> %d", ((int (*)(uint64_t, const void*, size_t))f)(0, 0, 0));
    if (f && !strcmp(names[i], "cuStreamSynchronize")) printf(" -> %d", ((Sync)f)(0));
    if (f && !strcmp(names[i], "cuStreamGetCaptureInfo"))
      printf(" -> %d", ((int (*)(void*, int*, uint64_t*, void*, const void**, const void**, size_t*))f)(
                           0, 0, 0, 0, 0, 0, 0));
    if (f && !strcmp(names[i], "cuLaunchKernelEx"))
      printf(" -> %d", ((int (*)(const void*, void*, void**, void**))f)(0, 0, 0, 0));
    printf("\n");
  }
  /* Asking for the look-up through the look-up: the answer must lead to the same results. */
  void* self = NULL;
  int code = proc2 ? proc2("cuGetProcAddress", &self, version, flags, NULL)
                   : proc("cuGetProcAddress", &self, version, flags);
  printf("self code %d %s\n", code, self ? "found" : "null");
  if (self) {
    void* f = NULL;
    int status = -1;
    if (version >= 12000 && proc2)
      ((Proc2)self)("cuMemAlloc", &f, 12000, 0, &status);
    else
      ((Proc)self)("cuMemAlloc", &f, 12000, 0);
    printf("through self %d\n", alloc_code(f));
  }
  static const char* const symbols[] = {"cuInit",
                                        "cuMemAlloc",
                                        "cuMemAlloc_v2",
                                        "cuMemcpyHtoD_v2",
                                        "cuMemcpyHtoD_v2_ptds",
                                        "cuStreamSynchronize",
                                        "cuStreamSynchronize_ptsz",
                                        "cuLaunchKernelEx",
                                        "cuStreamGetCaptureInfo",
                                        "cuStreamGetCaptureInfo_v3"};
  for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; ++i) report(symbols[i]);
}

/* Names and versions beyond the spec. */
static void by_future(Proc2 proc) {
  void *future = NULL, *newer = NULL, *known = NULL;
  proc("cuFutureThing", &future, 14000, 0, NULL);
  proc("cuMemAlloc", &newer, 14000, 0, NULL);
  proc("cuMemAlloc", &known, 13000, 0, NULL);
  typedef int (*Future)(long, long, long, long, long, long, double, long);
  printf("future %d\n", ((Future)future)(1, 2, 3, 4, 5, 6, 0.5, 8));
  uint64_t pointer = 0;
  printf("newer %d\n", ((int (*)(uint64_t*, size_t, unsigned))newer)(&pointer, 3, 0));
  printf("known %d\n", alloc_code(known));
  void* looked = dlsym(driver, "cuFutureThing");
  printf("dlsym %d\n", ((Future)looked)(1, 2, 3, 4, 5, 6, 0.5, 8));
  long (*drained)(void) = (long (*)(void))stub_rt("stub_rt_drained");
  if (drained) fprintf(stderr, "drained %ld\n", drained());
  report("cuMemAlloc_v2");
}

/* A probe for something that is not there stays absent, and says so in the usual ways. */
static void absent(void) {
  static const char* const names[] = {"cuLaunchKernelEx", "cuGraphLaunch", "cuFoo", "ncclAllReduce",
                                      "notcuda"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; ++i) {
    dlerror();
    errno = 77;
    void* p = driver ? dlsym(driver, names[i]) : NULL;
    int error = errno;
    printf("%s handle %s error %s errno %d\n", names[i], p ? "found" : "null", dlerror() ? "set" : "none",
           error);
    p = dlsym(RTLD_DEFAULT, names[i]);
    printf("%s default %s error %s\n", names[i], p ? "found" : "null", dlerror() ? "set" : "none");
    p = dlsym(RTLD_NEXT, names[i]);
    printf("%s next %s error %s\n", names[i], p ? "found" : "null", dlerror() ? "set" : "none");
    void* self = dlopen(NULL, RTLD_LAZY);
    p = dlsym(self, names[i]);
    printf("%s program %s error %s\n", names[i], p ? "found" : "null", dlerror() ? "set" : "none");
  }
  dlerror();
  void* ok = driver ? dlsym(driver, "cuInit") : NULL;
  printf("cuInit %s error %s\n", ok ? "found" : "null", dlerror() ? "set" : "none");
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "dlsym";
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  printf("driver %s\n", driver ? "loaded" : "absent");
  if (!strcmp(what, "absent")) return absent(), 0;
  if (!driver) return 3;
  if (!strcmp(what, "dlsym")) by_dlsym(0);
  if (!strcmp(what, "dlvsym")) by_dlsym(1);
  Proc2 proc2 = (Proc2)dlsym(driver, "cuGetProcAddress_v2");
  Proc proc = (Proc)dlsym(driver, "cuGetProcAddress");
  if (!strcmp(what, "proc")) by_proc(proc2, NULL, 12000, 0);
  if (!strcmp(what, "proc_old")) by_proc(NULL, proc, 11030, 0);
  if (!strcmp(what, "proc_ancient")) by_proc(NULL, proc, 2000, 0);
  if (!strcmp(what, "proc_ptsz")) by_proc(proc2, NULL, 13000, 2);
  if (!strcmp(what, "proc_plain_13")) by_proc(NULL, proc, 13000, 0);
  if (!strcmp(what, "future")) by_future(proc2);
  if (!strcmp(what, "runtime_lookup")) {
    void* mine = dlsym(driver, "cuMemAlloc_v2");
    void* (*lookup)(void*, const char*) = (void* (*)(void*, const char*))stub_rt("stub_rt_lookup");
    if (lookup) fprintf(stderr, "runtime %s\n", lookup(driver, "cuMemAlloc_v2") == mine ? "hook" : "real");
    printf("alloc %d again %d\n", alloc_code(mine), mine == dlsym(driver, "cuMemAlloc_v2"));
  }
  if (!strcmp(what, "indirect_dlsym")) {
    /* dlsym looked up through dlsym, and the driver through that. */
    void* libc = dlopen("libc.so.6", RTLD_LAZY);
    void* (*again)(void*, const char*) = (void* (*)(void*, const char*))dlsym(libc, "dlsym");
    printf("alloc %d\n", alloc_code(again(driver, "cuMemAlloc_v2")));
    report("cuMemAlloc_v2");
  }
  return 0;
}
