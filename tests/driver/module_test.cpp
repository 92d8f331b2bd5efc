#include <cstring>

#include "tests/driver/driver_test.h"

using driver_test::Driver;
using driver_test::read_file;

TEST_F(Driver, GlobalsAreInitialisedAndRelocated) {
  load();
  CUdeviceptr out;
  OK(cuMemAlloc(&out, 64));
  CUdeviceptr f = out + 32;
  OK(run(kernel("bump_globals"), {&out, &f}));
  int values[3];
  OK(cuMemcpyDtoH(values, out, sizeof values));
  EXPECT_EQ(values[0], 6);
  EXPECT_EQ(values[1], 30);  // through a pointer initialised with &table[2]
  EXPECT_EQ(values[2], 4);
  float scale = 0;
  OK(cuMemcpyDtoH(&scale, f, 4));
  EXPECT_EQ(scale, 2.5f);
  CUdeviceptr counter = 0, managed = 0;
  size_t bytes = 0;
  OK(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(read_int(counter), 6);
  OK(cuModuleGetGlobal(&managed, &bytes, module, "shared_with_host"));
  EXPECT_EQ(*reinterpret_cast<int*>(managed), 4);  // managed variables are the host's too
  FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&counter, &bytes, module, "nothing"));
  // A constant written by the host is what kernels read.
  CUdeviceptr constant;
  OK(cuModuleGetGlobal(&constant, nullptr, module, "scale"));
  const float nine = 9;
  OK(cuMemcpyHtoD(constant, &nine, 4));
  OK(run(kernel("bump_globals"), {&out, &f}));
  OK(cuMemcpyDtoH(&scale, f, 4));
  EXPECT_EQ(scale, 9);
}

TEST_F(Driver, GlobalsArePerContext) {
  load();
  CUdeviceptr first;
  OK(cuModuleGetGlobal(&first, nullptr, module, "counter"));
  const int hundred = 100;
  OK(cuMemcpyHtoD(first, &hundred, 4));
  CUcontext other;
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxSetCurrent(other));
  load();
  CUdeviceptr second;
  OK(cuModuleGetGlobal(&second, nullptr, module, "counter"));
  EXPECT_EQ(read_int(second), 5);
}

TEST_F(Driver, FatBinariesAndFiles) {
  const std::string fat = read_file(KERNELS ".fatbin");
  OK(cuModuleLoadData(&module, fat.data()));
  EXPECT_NE(kernel("vadd"), nullptr);
  CUfunction f;
  FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, module, "missing"));
  OK(cuModuleUnload(module));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&f, module, "vadd"));
  OK(cuModuleLoad(&module, KERNELS ".ptx"));
  OK(cuModuleLoad(&module, KERNELS ".fatbin"));
  FAILS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nowhere.ptx"));
}

TEST_F(Driver, RefusalsSayWhy) {
  const std::string sass = read_file(KERNELS "_sass.fatbin");
  ASSERT_FALSE(sass.empty());
  testing::internal::CaptureStderr();
  FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, sass.data()));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("-gencode arch=compute_100,code=compute_100"), std::string::npos) << said;
  char errors[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {errors, reinterpret_cast<void*>(sizeof errors)};
  FAILS(CUDA_ERROR_INVALID_PTX,
        cuModuleLoadDataEx(
            &module,
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { nonsense.u32 %r1; }\n", 2,
            options, values));
  EXPECT_NE(strlen(errors), 0u);
  FAILS(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        cuModuleLoadData(&module,
                         ".version 99.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"));
  FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU,
        cuModuleLoadData(&module,
                         ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k() { ret; }\n"));
  FAILS(CUDA_ERROR_INVALID_IMAGE,
        cuModuleLoadData(&module, "\x01\x02\x03\x04 this is nothing that anybody could load"));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, nullptr));
}

TEST_F(Driver, LibrariesServeAllDevices) {
  const std::string ptx = read_file(KERNELS ".ptx");
  CUlibrary library;
  OK(cuLibraryLoadData(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel k;
  OK(cuLibraryGetKernel(&k, library, "set_value"));
  FAILS(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&k, library, "none"));
  unsigned count = 0;
  OK(cuLibraryGetKernelCount(&count, library));
  EXPECT_GT(count, 10u);
  for (int device = 0; device < 3; ++device) {
    CUcontext c;
    OK(cuDevicePrimaryCtxRetain(&c, device));
    OK(cuCtxSetCurrent(c));
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4));
    int v = 70 + device;
    // A CUkernel is launched as if it were a CUfunction: the context decides.
    OK(run(reinterpret_cast<CUfunction>(k), {&p, &v}));
    EXPECT_EQ(read_int(p), v);
    CUfunction f;
    OK(cuKernelGetFunction(&f, k));
    ++v;
    OK(run(f, {&p, &v}));
    EXPECT_EQ(read_int(p), v);
    CUdeviceptr g;
    size_t bytes;
    OK(cuLibraryGetGlobal(&g, &bytes, library, "counter"));
    EXPECT_EQ(read_int(g), 5);
    int value = 0;
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, k, device));
    EXPECT_EQ(value, device == 2 ? 107 : 100);
  }
  CUlibrary back;
  OK(cuKernelGetLibrary(&back, k));
  EXPECT_EQ(back, library);
  OK(cuLibraryUnload(library));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuKernelGetLibrary(&back, k));
}

TEST_F(Driver, LinkerJoinsPtx) {
  const char* caller =
      ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func (.param .b32 r) twice(.param .b32 x);\n"
      ".visible .entry use(.param .u64 p) {\n.reg .b64 %rd<3>;\n.reg .b32 %r<3>;\nld.param.u64 %rd1, "
      "[p];\ncvta.to.global.u64 %rd2, %rd1;\n"
      "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], 21;\ncall.uni (b), twice, (a);\nld.param.b32 "
      "%r1, [b];\n}\nst.global.u32 [%rd2], %r1;\nret;\n}\n";
  const char* callee =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .func (.param .b32 r) twice(.param .b32 x) "
      "{\n.reg .b32 %r<3>;\n"
      "ld.param.b32 %r1, [x];\nadd.s32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n";
  CUlinkState link;
  OK(cuLinkCreate(0, nullptr, nullptr, &link));
  OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(caller), strlen(caller) + 1, "caller", 0,
                   nullptr, nullptr));
  void* image;
  size_t size;
  EXPECT_NE(cuLinkComplete(link, &image, &size), CUDA_SUCCESS);  // twice is missing
  OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(callee), strlen(callee) + 1, "callee", 0,
                   nullptr, nullptr));
  OK(cuLinkComplete(link, &image, &size));
  OK(cuModuleLoadData(&module, image));
  OK(cuLinkDestroy(link));
  CUdeviceptr p;
  OK(cuMemAlloc(&p, 4));
  OK(run(kernel("use"), {&p}));
  EXPECT_EQ(read_int(p), 42);
}
