// Driver API found by dlopen and dlsym, as frameworks do: the primary context, a fat binary from a file,
// events, pinned memory.
#include <dlfcn.h>

#include "driver_check.h"

template <typename Function>
static Function* find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (!symbol) {
    std::printf("%s: not found\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(symbol);
}
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
// cuda.h maps a name to its current version (cuMemAlloc is cuMemAlloc_v2): the look-up asks for that one.
#define FIND(name) auto* p_##name = find<decltype(name)>(library, TEXT(name))

int main(int argc, char** argv) {
  (void)argc;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  if (dlsym(library, "cuNoSuchFunction")) return finish(false);
  FIND(cuInit);
  FIND(cuDevicePrimaryCtxRetain);
  FIND(cuDevicePrimaryCtxRelease);
  FIND(cuCtxSetCurrent);
  FIND(cuModuleLoad);
  FIND(cuModuleUnload);
  FIND(cuModuleGetFunction);
  FIND(cuMemAlloc);
  FIND(cuMemFree);
  FIND(cuMemHostAlloc);
  FIND(cuMemFreeHost);
  FIND(cuMemcpyHtoDAsync);
  FIND(cuMemcpyDtoHAsync);
  FIND(cuMemsetD8Async);
  FIND(cuStreamCreate);
  FIND(cuStreamDestroy);
  FIND(cuStreamWaitEvent);
  FIND(cuEventCreate);
  FIND(cuEventRecord);
  FIND(cuEventSynchronize);
  FIND(cuEventElapsedTime);
  FIND(cuLaunchKernel);
  FIND(cuCtxSynchronize);

  DRIVER(p_cuInit(0));
  CUcontext context;
  DRIVER(p_cuDevicePrimaryCtxRetain(&context, 0));
  DRIVER(p_cuCtxSetCurrent(context));
  CUmodule module;
  DRIVER(p_cuModuleLoad(&module, beside(argv[0], "drv_kernels.fatbin").c_str()));
  CUfunction scramble, accumulate;
  DRIVER(p_cuModuleGetFunction(&scramble, module, "scramble"));
  DRIVER(p_cuModuleGetFunction(&accumulate, module, "accumulate"));

  int n = 9000;
  unsigned* pinned;
  DRIVER(p_cuMemHostAlloc(reinterpret_cast<void**>(&pinned), n * sizeof(unsigned), 0));
  unsigned long long want = 0, sum = 0;
  unsigned key = 0x9e3779b9u;
  for (int i = 0; i < n; ++i) {
    pinned[i] = i;
    want += (static_cast<unsigned>(i) ^ key) * 2654435761u;
  }
  CUdeviceptr v, total;
  DRIVER(p_cuMemAlloc(&v, n * sizeof(unsigned)));
  DRIVER(p_cuMemAlloc(&total, sizeof sum));
  CUstream upload, compute;
  DRIVER(p_cuStreamCreate(&upload, CU_STREAM_NON_BLOCKING));
  DRIVER(p_cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
  CUevent ready, end;
  DRIVER(p_cuEventCreate(&ready, CU_EVENT_DEFAULT));
  DRIVER(p_cuEventCreate(&end, CU_EVENT_DEFAULT));
  DRIVER(p_cuMemcpyHtoDAsync(v, pinned, n * sizeof(unsigned), upload));
  DRIVER(p_cuEventRecord(ready, upload));
  DRIVER(p_cuStreamWaitEvent(compute, ready, 0));
  DRIVER(p_cuMemsetD8Async(total, 0, sizeof sum, compute));
  void* args1[] = {&v, &n, &key};
  DRIVER(p_cuLaunchKernel(scramble, (n + 255) / 256, 1, 1, 256, 1, 1, 0, compute, args1, nullptr));
  void* args2[] = {&v, &n, &total};
  DRIVER(p_cuLaunchKernel(accumulate, 8, 1, 1, 128, 1, 1, 0, compute, args2, nullptr));
  DRIVER(p_cuMemcpyDtoHAsync(pinned, total, sizeof sum, compute));
  DRIVER(p_cuEventRecord(end, compute));
  DRIVER(p_cuEventSynchronize(end));
  std::memcpy(&sum, pinned, sizeof sum);
  float ms = -1;
  DRIVER(p_cuEventElapsedTime(&ms, ready, end));
  std::printf("sum %llu\n", sum);
  const bool ok = sum == want && ms >= 0;
  DRIVER(p_cuCtxSynchronize());
  DRIVER(p_cuStreamDestroy(upload));
  DRIVER(p_cuStreamDestroy(compute));
  DRIVER(p_cuMemFree(v));
  DRIVER(p_cuMemFree(total));
  DRIVER(p_cuMemFreeHost(pinned));
  DRIVER(p_cuModuleUnload(module));
  DRIVER(p_cuDevicePrimaryCtxRelease(0));
  return finish(ok);
}
