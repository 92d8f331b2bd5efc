// Driver API found by cuGetProcAddress: names with old and new version numbers, the per-thread-stream flag,
// absent names, and the function asked for itself; then a library with a CUkernel, and PTX linked by cuLink.
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "driver_check.h"

using GetProc1 = CUresult CUDAAPI(const char*, void**, int, cuuint64_t);
using GetProc2 = CUresult CUDAAPI(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

static GetProc2* get_proc;
static bool ok = true;

static void expect(const char* what, bool condition) {
  std::printf("%s: %s\n", what, condition ? "ok" : "WRONG");
  ok &= condition;
}

static void* look_up(const char* name, int version, cuuint64_t flags) {
  void* pointer = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult status = get_proc(name, &pointer, version, flags, &found);
  if (status != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS || !pointer) {
    std::printf("%s at %d, flags %d: status %d, result %d\n", name, version, static_cast<int>(flags),
                static_cast<int>(status), static_cast<int>(found));
    std::exit(1);
  }
  return pointer;
}
template <typename Pointer>
static Pointer get(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  return reinterpret_cast<Pointer>(look_up(name, version, flags));
}

static std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

int main(int argc, char** argv) {
  (void)argc;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  get_proc = reinterpret_cast<GetProc2*>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get_proc) return finish(false);

  // The look-up finds itself in both its forms, chosen by version.
  auto* old_get = get<GetProc1*>("cuGetProcAddress", 11030);
  auto* new_get = get<GetProc2*>("cuGetProcAddress", 12000);
  expect("two forms of cuGetProcAddress",
         reinterpret_cast<void*>(old_get) != reinterpret_cast<void*>(new_get));
  void* p = nullptr;
  CUdriverProcAddressQueryResult found;
  expect("unknown name", old_get("cuNoSuchFunction", &p, 13000, 0) != CUDA_SUCCESS && p == nullptr);
  const CUresult missing = new_get("cuNoSuchFunction", &p, 13000, 0, &found);
  expect("unknown name, second form",
         missing == CUDA_ERROR_NOT_FOUND && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  new_get("cuGraphAddNode", &p, 11000, 0, &found);
  expect("too new for the version asked", found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

  const auto init = get<PFN_cuInit_v2000>("cuInit", 2000);
  DRIVER(init(0));
  const auto retain = get<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain", 7000);
  const auto set_current = get<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent", 4000);
  CUcontext context;
  DRIVER(retain(&context, 0));
  DRIVER(set_current(context));

  // cuMemAlloc of CUDA 2.0 has 32-bit sizes and addresses; the one of 3.2 is a different function.
  expect("two versions of cuMemAlloc", look_up("cuMemAlloc", 2000, 0) != look_up("cuMemAlloc", 3020, 0));
  expect("same version, same function", look_up("cuMemAlloc", 3020, 0) == look_up("cuMemAlloc", 13000, 0));
  expect("per-thread copies differ",
         look_up("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) !=
             look_up("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
  expect("per-thread launches differ",
         look_up("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) !=
             look_up("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
  expect("no stream, no variant",
         look_up("cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) ==
             look_up("cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));

  const auto alloc = get<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020);
  const auto release = get<PFN_cuMemFree_v3020>("cuMemFree", 3020);
  const cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const auto upload = get<PFN_cuMemcpyHtoDAsync_v7000_ptsz>("cuMemcpyHtoDAsync", 12000, per_thread);
  const auto download = get<PFN_cuMemcpyDtoH_v7000_ptds>("cuMemcpyDtoH", 12000, per_thread);
  const auto launch = get<PFN_cuLaunchKernel_v7000_ptsz>("cuLaunchKernel", 12000, per_thread);
  const auto synchronize = get<PFN_cuStreamSynchronize_v7000_ptsz>("cuStreamSynchronize", 12000, per_thread);
  const auto event_create = get<PFN_cuEventCreate_v2000>("cuEventCreate", 2000);
  const auto event_record = get<PFN_cuEventRecord_v7000_ptsz>("cuEventRecord", 7000, per_thread);
  const auto event_time_v1 = get<PFN_cuEventElapsedTime_v2000>("cuEventElapsedTime", 2000);

  // A library (CUDA 12) and its kernel passed where a function is expected.
  const auto library_load = get<PFN_cuLibraryLoadData_v12000>("cuLibraryLoadData", 12000);
  const auto library_kernel = get<PFN_cuLibraryGetKernel_v12000>("cuLibraryGetKernel", 12000);
  const auto library_unload = get<PFN_cuLibraryUnload_v12000>("cuLibraryUnload", 12000);
  const std::string ptx = read_file(beside(argv[0], "drv_kernels.ptx"));
  CUlibrary loaded;
  CUkernel scramble;
  DRIVER(library_load(&loaded, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  DRIVER(library_kernel(&scramble, loaded, "scramble"));
  int n = 5000;
  unsigned key = 77;
  std::vector<unsigned> host(n), want(n);
  for (int i = 0; i < n; ++i) {
    host[i] = i * 3u;
    want[i] = (host[i] ^ key) * 2654435761u;
  }
  CUdeviceptr v;
  CUevent begin, end;
  DRIVER(event_create(&begin, 0));
  DRIVER(event_create(&end, 0));
  DRIVER(alloc(&v, n * sizeof(unsigned)));
  DRIVER(event_record(begin, nullptr));
  DRIVER(upload(v, host.data(), n * sizeof(unsigned), nullptr));
  void* args[] = {&v, &n, &key};
  DRIVER(launch(reinterpret_cast<CUfunction>(scramble), (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, args,
                nullptr));
  DRIVER(event_record(end, nullptr));
  DRIVER(synchronize(nullptr));
  DRIVER(download(host.data(), v, n * sizeof(unsigned)));
  expect("kernel on the per-thread stream", host == want);
  float ms = -1;
  DRIVER(event_time_v1(&ms, begin, end));
  expect("old event timing", ms >= 0);

  // The linker takes the same PTX and gives back an image to load as a module.
  const auto link_create = get<PFN_cuLinkCreate_v6050>("cuLinkCreate", 6050);
  const auto link_add = get<PFN_cuLinkAddData_v6050>("cuLinkAddData", 6050);
  const auto link_complete = get<PFN_cuLinkComplete_v5050>("cuLinkComplete", 5050);
  const auto link_destroy = get<PFN_cuLinkDestroy_v5050>("cuLinkDestroy", 5050);
  const auto module_load = get<PFN_cuModuleLoadDataEx_v2010>("cuModuleLoadDataEx", 2010);
  const auto module_function = get<PFN_cuModuleGetFunction_v2000>("cuModuleGetFunction", 2000);
  CUlinkState link;
  char log[1024] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  DRIVER(link_create(2, options, values, &link));
  DRIVER(link_add(link, CU_JIT_INPUT_PTX, const_cast<char*>(ptx.c_str()), ptx.size() + 1, "drv_kernels.ptx",
                  0, nullptr, nullptr));
  void* image;
  size_t image_bytes;
  DRIVER(link_complete(link, &image, &image_bytes));
  CUmodule module;
  DRIVER(module_load(&module, image, 0, nullptr, nullptr));
  DRIVER(link_destroy(link));
  CUfunction function;
  DRIVER(module_function(&function, module, "scramble"));
  DRIVER(launch(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, args, nullptr));
  DRIVER(download(host.data(), v, n * sizeof(unsigned)));
  for (unsigned& x : want) x = (x ^ key) * 2654435761u;
  expect("linked module", host == want);
  DRIVER(library_unload(loaded));
  DRIVER(release(v));
  return finish(ok);
}
