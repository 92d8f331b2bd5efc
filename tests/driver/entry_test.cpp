// cuGetProcAddress: exact names, versions and stream kinds; every exported symbol is reachable.
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include "tests/driver/driver_test.h"

using driver_test::Driver;

namespace {
void* ask(const char* name, int version, cuuint64_t flags = 0,
          CUdriverProcAddressQueryResult* status = nullptr) {
  void* p = nullptr;
  cuGetProcAddress_v2(name, &p, version, flags, status);
  return p;
}
void* symbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }
}  // namespace

TEST_F(Driver, VersionsSelectEntryPoints) {
  EXPECT_EQ(ask("cuCtxCreate", 2000), symbol("cuCtxCreate"));
  EXPECT_EQ(ask("cuCtxCreate", 3020), symbol("cuCtxCreate_v2"));
  EXPECT_EQ(ask("cuCtxCreate", 11040), symbol("cuCtxCreate_v3"));
  EXPECT_EQ(ask("cuCtxCreate", 12000), symbol("cuCtxCreate_v3"));
  EXPECT_EQ(ask("cuCtxCreate", 13000), symbol("cuCtxCreate_v4"));
  EXPECT_EQ(ask("cuMemAlloc", 2000), symbol("cuMemAlloc"));
  EXPECT_EQ(ask("cuMemAlloc", 13000), symbol("cuMemAlloc_v2"));
  EXPECT_EQ(ask("cuEventElapsedTime", 12000), symbol("cuEventElapsedTime"));
  EXPECT_EQ(ask("cuEventElapsedTime", 12080), symbol("cuEventElapsedTime_v2"));
  EXPECT_EQ(ask("cuGetProcAddress", 11030), symbol("cuGetProcAddress"));
  EXPECT_EQ(ask("cuGetProcAddress", 12000), symbol("cuGetProcAddress_v2"));
}

TEST_F(Driver, StreamKinds) {
  EXPECT_EQ(ask("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            symbol("cuLaunchKernel_ptsz"));
  EXPECT_EQ(ask("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_LEGACY_STREAM), symbol("cuLaunchKernel"));
  EXPECT_EQ(ask("cuMemcpyHtoD", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            symbol("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(ask("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), symbol("cuMemAlloc_v2"));
}

TEST_F(Driver, StatusTellsUnknownFromTooOld) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(ask("cuNoSuchThing", 13000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(ask("cuLaunchKernelEx", 11000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_NE(ask("cuLaunchKernelEx", 13000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  void* p = nullptr;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", nullptr, 13000, 0, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &p, 13000, 64, nullptr));
  FAILS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("", &p, 0, 0, nullptr));
  EXPECT_EQ(ask("cuMemAlloc_v2", 13000), nullptr);  // names, not symbols
}

TEST_F(Driver, PerThreadFormMeansTheThreadsStream) {
  load();
  auto launch = reinterpret_cast<PFN_cuLaunchKernel_v7000_ptsz>(
      ask("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
  CUdeviceptr p;
  void* pinned = nullptr;
  OK(cuMemHostAlloc(&pinned, 64, 0));
  volatile unsigned* gate = static_cast<volatile unsigned*>(pinned);
  *gate = 0;
  OK(cuMemAlloc(&p, 4));
  // The legacy stream would wait for this blocking stream; so would the per-thread stream not.
  CUstream blocking;
  OK(cuStreamCreate(&blocking, 0));
  OK(cuStreamWaitValue32(blocking, reinterpret_cast<CUdeviceptr>(gate), 1, 0));
  int v = 3;
  void* args[] = {&p, &v};
  OK(launch(kernel("set_value"), 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  *gate = 1;
  OK(cuStreamSynchronize(blocking));
  EXPECT_EQ(read_int(p), 3);
}

TEST_F(Driver, PrivateTablesAreRefused) {
  CUuuid id = {};
  const void* table = &id;
  EXPECT_NE(cuGetExportTable(&table, &id), CUDA_SUCCESS);
  EXPECT_EQ(table, nullptr);
}
