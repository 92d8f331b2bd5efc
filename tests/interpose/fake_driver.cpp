// A stand-in libcuda.so.1 with a handful of entry points, built once per export combination (CMakeLists.txt):
//   FAKE_PROC_ADDRESS  0: none (before 11.3), 1: cuGetProcAddress only, 2: also _v2
//   FAKE_OLD           lacks what CUDA 11.x lacked (cuLaunchKernelEx) and the newest versions
//   FAKE_FUTURE        knows a function and a version the spec does not
//   FAKE_THUNKS        its look-up answers with other addresses than its symbol table
// Every function counts its calls and checks its arguments, so a lost register or a wrong target shows as a
// wrong code.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
struct Count {
  const char* name;
  long calls;
};
Count counts[64];

void count(const char* name) {
  for (Count& c : counts) {
    if (!c.name) c.name = name;
    if (!strcmp(c.name, name)) {
      __atomic_add_fetch(&c.calls, 1, __ATOMIC_RELAXED);
      return;
    }
  }
}
}  // namespace

EXPORT long fake_calls(const char* name) {
  for (Count& c : counts)
    if (c.name && !strcmp(c.name, name)) return c.calls;
  return 0;
}

// Each returns 1000 + its own number, so that a caller can tell versions apart.
EXPORT int cuInit(unsigned flags) { return count("cuInit"), flags == 0 ? 0 : 1; }
EXPORT int cuDriverGetVersion(int* version) { return count("cuDriverGetVersion"), *version = 13000, 0; }
EXPORT int cuDeviceGetCount(int* value) { return count("cuDeviceGetCount"), *value = 2, 0; }
EXPORT int cuMemAlloc(unsigned* pointer, unsigned size) { return count("cuMemAlloc"), *pointer = size, 1001; }
EXPORT int cuMemAlloc_v2(uint64_t* pointer, size_t size) {
  return count("cuMemAlloc_v2"), *pointer = size, 1002;
}
EXPORT int cuMemcpyHtoD_v2(uint64_t, const void*, size_t) { return count("cuMemcpyHtoD_v2"), 1003; }
EXPORT int cuMemcpyHtoD_v2_ptds(uint64_t, const void*, size_t) { return count("cuMemcpyHtoD_v2_ptds"), 1004; }
EXPORT int cuStreamSynchronize(void*) { return count("cuStreamSynchronize"), 1005; }
EXPORT int cuStreamSynchronize_ptsz(void*) { return count("cuStreamSynchronize_ptsz"), 1006; }
EXPORT int cuParamSetf(void* f, int offset, float value) {
  return count("cuParamSetf"), f == reinterpret_cast<void*>(7) && offset == 8 && value == 2.5f ? 1007 : 1;
}
EXPORT int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void* stream, void** params, void** extra) {
  count("cuLaunchKernel");
  bool right = f == reinterpret_cast<void*>(1) && gx == 2 && gy == 3 && gz == 4 && bx == 5 && by == 6 &&
               bz == 7 && shared == 8 && stream == reinterpret_cast<void*>(9) &&
               params == reinterpret_cast<void**>(10) && extra == reinterpret_cast<void**>(11);
  return right ? 1008 : 1;
}
#ifndef FAKE_OLD
EXPORT int cuLaunchKernelEx(const void*, void*, void**, void**) { return count("cuLaunchKernelEx"), 1009; }
EXPORT int cuStreamGetCaptureInfo_v3(void*, int*, uint64_t*, void*, const void**, const void**, size_t*) {
  return count("cuStreamGetCaptureInfo_v3"), 1010;
}
#endif
EXPORT int cuStreamGetCaptureInfo(void*, int*, uint64_t*) { return count("cuStreamGetCaptureInfo"), 1011; }
#ifdef FAKE_FUTURE
// Six integers, a double and one stack argument: everything the trampoline must carry over.
EXPORT int cuFutureThing(long a, long b, long c, long d, long e, long f, double g, long h) {
  return count("cuFutureThing"),
         a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 0.5 && h == 8 ? 2000 : 1;
}
EXPORT int cuMemAlloc_v3(uint64_t* pointer, size_t size, unsigned) {
  return count("cuMemAlloc_v3"), *pointer = size, 2001;
}
#endif
#ifdef FAKE_THUNKS
namespace {
int thunk_cuMemAlloc_v2(uint64_t* pointer, size_t size) { return cuMemAlloc_v2(pointer, size); }
int thunk_cuStreamSynchronize(void* s) { return cuStreamSynchronize(s); }
}  // namespace
#endif

#if FAKE_PROC_ADDRESS
namespace {
struct Row {
  const char* name;
  int version, flag;
  void* function;
};
#define ROW(base, version, flag, symbol) \
  { base, version, flag, reinterpret_cast<void*>(symbol) }
int lookup(const char* name, void** result, int version, uint64_t flags, bool second);
}  // namespace
EXPORT int cuGetProcAddress(const char* name, void** result, int version, uint64_t flags) {
  return count("cuGetProcAddress"), lookup(name, result, version, flags, false);
}
#if FAKE_PROC_ADDRESS > 1
EXPORT int cuGetProcAddress_v2(const char* name, void** result, int version, uint64_t flags, int* status) {
  count("cuGetProcAddress_v2");
  int code = lookup(name, result, version, flags, true);
  if (status) *status = *result ? 0 : 1;
  return code;
}
#endif
namespace {
int lookup(const char* name, void** result, int version, uint64_t flags, bool) {
  static const Row rows[] = {
    ROW("cuInit", 2000, 0, cuInit),
    ROW("cuDriverGetVersion", 2020, 0, cuDriverGetVersion),
    ROW("cuDeviceGetCount", 2000, 0, cuDeviceGetCount),
    ROW("cuMemAlloc", 2000, 0, cuMemAlloc),
#ifdef FAKE_THUNKS
    ROW("cuMemAlloc", 3020, 0, thunk_cuMemAlloc_v2),
    ROW("cuStreamSynchronize", 2000, 0, thunk_cuStreamSynchronize),
#else
    ROW("cuMemAlloc", 3020, 0, cuMemAlloc_v2),
    ROW("cuStreamSynchronize", 2000, 0, cuStreamSynchronize),
#endif
    ROW("cuMemcpyHtoD", 3020, 0, cuMemcpyHtoD_v2),
    ROW("cuMemcpyHtoD", 7000, 2, cuMemcpyHtoD_v2_ptds),
    ROW("cuStreamSynchronize", 7000, 2, cuStreamSynchronize_ptsz),
    ROW("cuParamSetf", 2000, 0, cuParamSetf),
    ROW("cuLaunchKernel", 4000, 0, cuLaunchKernel),
    ROW("cuStreamGetCaptureInfo", 10010, 0, cuStreamGetCaptureInfo),
#ifndef FAKE_OLD
    ROW("cuLaunchKernelEx", 11060, 0, cuLaunchKernelEx),
    ROW("cuStreamGetCaptureInfo", 12030, 0, cuStreamGetCaptureInfo_v3),
#endif
#ifdef FAKE_FUTURE
    ROW("cuFutureThing", 14000, 0, cuFutureThing),
    ROW("cuMemAlloc", 14000, 0, cuMemAlloc_v3),
#endif
    ROW("cuGetProcAddress", 11030, 0, cuGetProcAddress),
#if FAKE_PROC_ADDRESS > 1
    ROW("cuGetProcAddress", 12000, 0, cuGetProcAddress_v2),
#endif
  };
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (strcmp(row.name, name) != 0 || row.version > version || (row.flag && !(flags & 2))) continue;
    if (!best || row.flag > best->flag || (row.flag == best->flag && row.version > best->version))
      best = &row;
  }
  *result = best ? best->function : nullptr;
  return best || FAKE_PROC_ADDRESS > 1 ? 0 : 500;
}
}  // namespace
#endif
