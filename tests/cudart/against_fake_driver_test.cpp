// The runtime against a driver that logs: what is looked up and called, error state, contexts, registration,
// exit.
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cudart/fake_driver.h"
#include "tests/cudart/in_child.h"

using namespace simgpu::cudart::testing;  // NOLINT: a test of that namespace

namespace {

TEST(Start, NoDriverIsInsufficientDriver) {
  // The loader reads its search path once, so this takes a program of its own.
  in_child({{"LD_LIBRARY_PATH", ""}, {"PROBE_NO_DRIVER", "1"}}, [] {
    execl("/proc/self/exe", "probe", "--gtest_filter=Probe.NoDriver", nullptr);
    FAIL() << "cannot run myself";
  });
}
TEST(Probe, NoDriver) {
  if (getenv("PROBE_NO_DRIVER") == nullptr) return;  // run by the test above
  int count = 5;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  int version = 7;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorInsufficientDriver);
  void* function = nullptr;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuInit", &function, 12000, 0, nullptr),
            cudaErrorInsufficientDriver);
}

TEST(Start, OldDriverIsInsufficientDriver) {
  in_child({{"FAKE_DRIVER_VERSION", "12090"}}, [] {
    int count = 5;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    EXPECT_EQ(count, 0);
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, 4), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInsufficientDriver);
    int version = 0;
    EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version, 12090);  // still told
    EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version, 13000);
    EXPECT_EQ(times(driver_log(), "call "), 0);  // not even cuInit
  });
}

TEST(Start, DriverWithoutDevices) {
  in_child({{"FAKE_DRIVER_FAIL", "cuInit=100"}}, [] {
    int count = 5;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    EXPECT_EQ(count, 0);
    EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
  });
}

TEST(Start, EverythingByNameVersionAndFlag) {
  in_child({}, [] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    const std::string log = driver_log();
    EXPECT_NE(log.find("find cuGetProcAddress 12000 0\n"), std::string::npos);
    EXPECT_NE(log.find("find cuMemAlloc 3020 0\n"), std::string::npos);
    EXPECT_NE(log.find("find cuLaunchKernel 4000 0\n"), std::string::npos);
    EXPECT_NE(log.find("find cuLaunchKernel 7000 2\n"), std::string::npos);
    EXPECT_GT(times(log, "find "), 300);
    EXPECT_GE(times(log, " 2\n"), 60);
    EXPECT_LT(log.find("call cuInit"), log.find("call cuDevicePrimaryCtxRetain 0"));
    EXPECT_EQ(times(log, "call cuDevicePrimaryCtxRetain"), 1);
  });
}

TEST(Start, NothingHappensBeforeTheFirstCall) {
  in_child({}, [] {
    Registered module;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(fake("fake_log"), nullptr);  // registration did not open the driver
    int count = 0;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 2);
    int device = 7;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(times(driver_log(), "call cuDevicePrimaryCtxRetain"), 0);  // no context for questions
  });
}

TEST(Start, MissingEntryPointsAreNotSupported) {
  in_child({{"FAKE_DRIVER_MISSING", "cuMemAlloc,cuLaunchKernel"}}, [] {
    Registered module;
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, 16), cudaErrorNotSupported);
    EXPECT_EQ(cudaLaunchKernel(&module.kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr),
              cudaErrorNotSupported);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaGraphCreate(&graph, 0), cudaErrorNotSupported);  // the fake has no graphs at all
    EXPECT_EQ(cudaProfilerStart(), cudaErrorNotSupported);
    EXPECT_EQ(cudaGLGetDevices(), cudaErrorNotSupported);
    const void* table = &table;
    cudaUUID_t id{};
    EXPECT_EQ(cudaGetExportTable(&table, &id), cudaErrorNotSupported);
    EXPECT_EQ(table, nullptr);
  });
}

TEST(ErrorState, LastErrorIsKeptClearedAndPerThread) {
  in_child({}, [] {
    void* pointer = nullptr;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cudaMalloc(&pointer, 16), cudaErrorMemoryAllocation);
    fail("cuMemAlloc", 0);
    EXPECT_EQ(cudaMalloc(&pointer, 16), cudaSuccess);  // success does not clear it
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    // A newer error replaces an older one.
    EXPECT_EQ(cudaMemcpy(pointer, pointer, 4, static_cast<cudaMemcpyKind>(9)),
              cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  });
}

TEST(ErrorState, NotReadyCountsAsLastError) {
  in_child({}, [] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    fail("cuEventQuery", CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cudaEventQuery(nullptr), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  });
}

TEST(ErrorState, ContextErrorsComeBackFromEveryCall) {
  in_child({}, [] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    fail("cuCtxSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
    fail("cuMemFree", CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaFree(nullptr), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  });
}

TEST(ErrorState, CodesTheRuntimeDoesNotKnowAreUnknown) {
  in_child({}, [] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    fail("cuMemFree", CUDA_ERROR_CONTEXT_ALREADY_CURRENT);
    EXPECT_EQ(cudaFree(nullptr), cudaErrorUnknown);
  });
}

TEST(ErrorState, EveryCodeHasNameAndText) {
  EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorTensorMemoryLeak), "cudaErrorTensorMemoryLeak");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
  // Against the header itself.
  std::ifstream header(CUDA_INCLUDE_DIR "/driver_types.h");
  const std::regex enumerator(R"(^[ ,]*(cuda(?:Success|Error\w+))\s*=\s*(\d+))");
  std::set<int> codes;
  for (std::string line; std::getline(header, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, enumerator)) continue;
    const int code = std::stoi(match[2]);
    codes.insert(code);
    EXPECT_EQ(cudaGetErrorName(static_cast<cudaError_t>(code)), match[1]);
    EXPECT_STRNE(cudaGetErrorString(static_cast<cudaError_t>(code)), "unrecognized error code") << match[1];
  }
  EXPECT_GT(codes.size(), 120u);
  for (int code = 0; code <= 10001; ++code) {
    const std::string name = cudaGetErrorName(static_cast<cudaError_t>(code));
    EXPECT_EQ(name != "unrecognized error code", codes.count(code) == 1) << code;
  }
}

TEST(Context, SetDeviceBindsThePrimaryContextAtOnce) {
  in_child({}, [] {
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuDevicePrimaryCtxRetain 1"), 1);
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(cudaInitDevice(0, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid), cudaSuccess);
    EXPECT_NE(driver_log().find("call cuDevicePrimaryCtxSetFlags 0 1"), std::string::npos);
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1);  // initialising another device does not choose it
    std::thread([] {
      int mine = -1;
      EXPECT_EQ(cudaGetDevice(&mine), cudaSuccess);
      EXPECT_EQ(mine, 0);  // the choice is the thread's
      EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    }).join();
    EXPECT_EQ(times(driver_log(), "call cuDevicePrimaryCtxRetain 0"), 1);
    EXPECT_EQ(cudaSetDeviceFlags(0x1000), cudaErrorInvalidValue);
    EXPECT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceScheduleYield), cudaErrorInvalidValue);
  });
}

TEST(Context, ResetIsFollowedByAFreshContext) {
  in_child({}, [] {
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    std::thread other([] {
      // This thread's context goes away under it, and comes back with its next call.
      EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
      std::thread([] {
        EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
        EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
      }).join();
      EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
      EXPECT_EQ(times(driver_log(), "call cuDevicePrimaryCtxRetain 1"), 2);
    });
    other.join();
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuDevicePrimaryCtxRetain 1"), 2);
    EXPECT_EQ(times(driver_log(), "call cuDevicePrimaryCtxReset 1"), 1);
  });
}

TEST(Context, ValidDevicesAreTriedInOrder) {
  in_child({}, [] {
    int order[] = {1, 0};
    EXPECT_EQ(cudaSetValidDevices(order, 2), cudaSuccess);
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1);
    int wrong[] = {5};
    EXPECT_EQ(cudaSetValidDevices(wrong, 1), cudaErrorInvalidDevice);
  });
}

TEST(Flavours, PerThreadFormsUsePerThreadEntryPoints) {
  in_child({}, [] {
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuStreamQuery\n"), 1);
    EXPECT_EQ(cudaStreamQuery_ptsz(nullptr), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuStreamQuery/per-thread\n"), 1);
    char a[8] = {}, b[8] = {};
    EXPECT_EQ(cudaMemcpy_ptds(a, b, 8, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuMemcpyHtoD/per-thread 8\n"), 1);
    Registered module;
    cudaKernel_t kernel = nullptr;
    EXPECT_EQ(__cudaGetKernel(&kernel, &module.kernel_host), cudaSuccess);
    EXPECT_EQ(__cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
    EXPECT_EQ(__cudaLaunchKernel_ptsz(kernel, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuLaunchKernel\n"), 1);
    EXPECT_EQ(times(driver_log(), "call cuLaunchKernel/per-thread\n"), 1);
  });
}

TEST(Copies, KindsBecomeDriverCalls) {
  in_child({}, [] {
    char a[8] = {}, b[8] = {};
    EXPECT_EQ(cudaMemcpy(a, b, 1, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(a, b, 2, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(a, b, 3, cudaMemcpyDeviceToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(a, b, 4, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(a, b, 5, cudaMemcpyHostToHost), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(a, b, 6, static_cast<cudaMemcpyKind>(5)), cudaErrorInvalidMemcpyDirection);
    const std::string log = driver_log();
    EXPECT_LT(log.find("call cuMemcpyHtoD 1\ncall cuMemcpyDtoH 2\ncall cuMemcpyDtoD 3\ncall cuMemcpy 4\ncall "
                       "cuMemcpy 5\n"),
              log.size());
    EXPECT_EQ(cudaMemcpy2D(a, 4, b, 4, 5, 2, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
    EXPECT_EQ(cudaMemcpyPeer(a, 0, b, 3, 1), cudaErrorInvalidDevice);
  });
}

TEST(Launch, LoadsLazilyAndOnce) {
  in_child({}, [] {
    Registered module;
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuLibraryLoadData"), 0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cudaLaunchKernel(&module.kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
    }
    // The whole wrapper goes to the driver, with the option that it stays where it is.
    EXPECT_EQ(times(driver_log(), "call cuLibraryLoadData 77 options 1\n"), 1);
    EXPECT_EQ(times(driver_log(), "call cuLibraryLoadData"), 1);
    EXPECT_EQ(times(driver_log(), "call cuLibraryGetKernel kernel\n"), 1);
    EXPECT_EQ(times(driver_log(), "call cuLaunchKernel\n"), 3);
  });
}

TEST(Launch, EagerModeLoadsWithTheContext) {
  in_child({{"FAKE_DRIVER_EAGER", "1"}}, [] {
    Registered module;
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuLibraryLoadData"), 1);
    EXPECT_NE(module.managed_host, nullptr);
    EXPECT_EQ(times(driver_log(), "call cuLibraryGetKernel"), 0);
  });
}

TEST(Launch, ImpossibleConfigurationsHaveTheirOwnCode) {
  in_child({}, [] {
    Registered module;
    const auto launch = [&](dim3 grid, dim3 block, size_t shared) {
      return cudaLaunchKernel(&module.kernel_host, grid, block, nullptr, shared, nullptr);
    };
    EXPECT_EQ(launch(dim3(0), dim3(1), 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(dim3(1), dim3(1, 0), 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(dim3(1), dim3(2048), 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(dim3(1), dim3(64, 64), 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(dim3(1, 70000), dim3(1), 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(dim3(1), dim3(1), 200000),
              cudaErrorInvalidValue);  // shared memory is no configuration error
    EXPECT_EQ(launch(dim3(1), dim3(1), size_t{1} << 33), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT_EQ(launch(dim3(1), dim3(1), 0), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
}

TEST(Launch, UnknownFunctionsAndKernels) {
  in_child({}, [] {
    Registered module;
    char nobody = 0;
    EXPECT_EQ(cudaLaunchKernel(&nobody, dim3(1), dim3(1), nullptr, 0, nullptr),
              cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr),
              cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaLaunchKernel(&module.absent_host, dim3(1), dim3(1), nullptr, 0, nullptr),
              cudaErrorInvalidDeviceFunction);
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, &nobody), cudaErrorInvalidDeviceFunction);
    // A cudaKernel_t passes for a function.
    cudaKernel_t kernel = nullptr;
    EXPECT_EQ(cudaGetKernel(&kernel, &module.kernel_host), cudaSuccess);
    EXPECT_EQ(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
    EXPECT_EQ(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferL1), cudaErrorInvalidDeviceFunction);
  });
}

TEST(Launch, AStubTriesAgainAfterAFailure) {
  in_child({{"FAKE_DRIVER_FAIL", "cuLibraryLoadData=209"}}, [] {
    Registered module;
    cudaKernel_t kernel = nullptr;
    EXPECT_EQ(__cudaGetKernel(&kernel, &module.kernel_host), cudaErrorNoKernelImageForDevice);
    EXPECT_EQ(__cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, nullptr),
              cudaErrorNoKernelImageForDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
    fail("cuLibraryLoadData", 0);
    EXPECT_EQ(__cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
  });
}

TEST(Launch, ConfigurationsNest) {
  EXPECT_EQ(__cudaPopCallConfiguration(nullptr, nullptr, nullptr, nullptr), cudaErrorMissingConfiguration);
  for (unsigned i = 1; i <= 40; ++i) {
    EXPECT_EQ(__cudaPushCallConfiguration(dim3(i, 2, 3), dim3(4, 5, i), 100 + i, nullptr), 0u);
  }
  for (unsigned i = 40; i >= 1; --i) {
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream = cudaStreamLegacy;
    EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
    EXPECT_EQ(grid.x, i);
    EXPECT_EQ(block.z, i);
    EXPECT_EQ(shared, 100 + i);
    EXPECT_EQ(stream, nullptr);
  }
  EXPECT_EQ(cudaGetLastError(), cudaErrorMissingConfiguration);
}

TEST(Functions, AttributesAreThoseOfTheCurrentDevice) {
  in_child({}, [] {
    Registered module;
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, &module.kernel_host), cudaSuccess);
    EXPECT_EQ(attributes.maxThreadsPerBlock, 100 + CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    EXPECT_EQ(attributes.numRegs, 100 + CU_FUNC_ATTRIBUTE_NUM_REGS);
    EXPECT_EQ(attributes.nonPortableClusterSizeAllowed,
              100 + CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    EXPECT_EQ(cudaFuncSetAttribute(&module.kernel_host, cudaFuncAttributeMaxDynamicSharedMemorySize, 70000),
              cudaSuccess);
    EXPECT_NE(driver_log().find("call cuKernelSetAttribute 8 70000 1\n"), std::string::npos);
    EXPECT_EQ(cudaFuncSetAttribute(&module.kernel_host, static_cast<cudaFuncAttribute>(3), 1),
              cudaErrorInvalidValue);
  });
}

TEST(Symbols, AddressSizeAndRange) {
  in_child({}, [] {
    Registered module;
    void* address = nullptr;
    size_t size = 0;
    EXPECT_EQ(cudaGetSymbolAddress(&address, &module.variable_host), cudaSuccess);
    EXPECT_NE(address, nullptr);
    EXPECT_EQ(cudaGetSymbolSize(&size, &module.variable_host), cudaSuccess);
    EXPECT_EQ(size, 64u);
    char data[64] = {}, nobody = 0;
    EXPECT_EQ(cudaMemcpyToSymbol(&module.variable_host, data, 60, 4, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpyToSymbol(&module.variable_host, data, 61, 4, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpyToSymbol(&module.variable_host, data, 4, 0, cudaMemcpyDeviceToHost),
              cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaMemcpyFromSymbol(data, &module.variable_host, 4, 0, cudaMemcpyHostToDevice),
              cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaMemcpyToSymbol(&nobody, data, 4, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
    EXPECT_EQ(cudaGetSymbolAddress(&address, nullptr), cudaErrorInvalidSymbol);
  });
}

TEST(Symbols, ManagedVariablesAreFilledInAtFirstTouch) {
  in_child({}, [] {
    Registered module;
    EXPECT_EQ(module.managed_host, nullptr);
    EXPECT_NE(__cudaInitModule(module.handle), 0);
    ASSERT_NE(module.managed_host, nullptr);
    // The program names the variable by what the pointer points to.
    void* address = nullptr;
    size_t size = 0;
    EXPECT_EQ(cudaGetSymbolAddress(&address, module.managed_host), cudaSuccess);
    EXPECT_EQ(address, module.managed_host);
    EXPECT_EQ(cudaGetSymbolSize(&size, module.managed_host), cudaSuccess);
    EXPECT_EQ(size, 16u);
  });
}

TEST(Registration, ManyModulesFromManyThreads) {
  in_child({}, [] {
    constexpr int kThreads = 8, kModules = 60;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < kModules; ++i) {
          auto* module = new Registered;
          EXPECT_EQ(cudaLaunchKernel(&module->kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr),
                    cudaSuccess);
          if (i % 3 == 0) {
            __cudaUnregisterFatBinary(module->handle);
            EXPECT_EQ(cudaLaunchKernel(&module->kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr),
                      cudaErrorInvalidDeviceFunction);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(times(driver_log(), "call cuLibraryLoadData"), kThreads * kModules);
    EXPECT_EQ(times(driver_log(), "call cuLibraryUnload"), kThreads * kModules / 3);
  });
}

TEST(Registration, TheSameStubFromTwoUnits) {
  in_child({}, [] {
    Registered first;
    unsigned wrapper[6] = {88};
    void** second = __cudaRegisterFatBinary(wrapper);
    __cudaRegisterFunction(second, &first.kernel_host, nullptr, "kernel2", -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(second);
    EXPECT_EQ(cudaLaunchKernel(&first.kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuLibraryGetKernel kernel\n"), 1);
    __cudaUnregisterFatBinary(first.handle);
    EXPECT_EQ(cudaLaunchKernel(&first.kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuLibraryGetKernel kernel2\n"), 1);
  });
}

TEST(Pointers, Attributes) {
  in_child({}, [] {
    void* device = nullptr;
    EXPECT_EQ(cudaMalloc(&device, 16), cudaSuccess);
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, device), cudaSuccess);
    EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
    EXPECT_EQ(attributes.device, 1);
    EXPECT_EQ(attributes.devicePointer, device);
    EXPECT_EQ(attributes.hostPointer, nullptr);
    int local = 0;
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, &local), cudaSuccess);
    EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
    EXPECT_EQ(attributes.device, cudaInvalidDeviceId);
    EXPECT_EQ(attributes.devicePointer, nullptr);
    void* nothing = &local;
    EXPECT_EQ(cudaMalloc(&nothing, 0), cudaSuccess);
    EXPECT_EQ(nothing, nullptr);
    EXPECT_EQ(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
  });
}

TEST(EntryPoints, RuntimeHandsOutDriverFunctions) {
  in_child({}, [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult status;
    EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &status),
              cudaSuccess);
    EXPECT_NE(function, nullptr);
    EXPECT_EQ(status, cudaDriverEntryPointSuccess);
    EXPECT_NE(driver_log().find("find cuMemAlloc 12000 1\n"), std::string::npos);
    EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, cudaEnableDefault, &status),
              cudaSuccess);
    EXPECT_EQ(function, nullptr);
    EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
    EXPECT_EQ(cudaGetDriverEntryPointByVersion(nullptr, &function, 12000, cudaEnableDefault, &status),
              cudaErrorInvalidValue);
  });
}

TEST(Fork, AChildOfAStartedParentIsRefused) {
  in_child({}, [] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    in_child({}, [] {
      EXPECT_EQ(cudaFree(nullptr), cudaErrorInitializationError);
      int count = 0;
      EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInitializationError);
    });
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  });
}

// Statics of the program die before the runtime does; calls from them work, and later ones get an answer.
Registered* late_module = nullptr;
struct UsedAtExit {
  ~UsedAtExit() {
    if (late_module == nullptr) return;
    std::printf("static: launch %d free %d\n",
                cudaLaunchKernel(&late_module->kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr),
                cudaFree(nullptr));
    __cudaUnregisterFatBinary(late_module->handle);
    std::printf("unregistered: launch %d free %d\n",
                cudaLaunchKernel(&late_module->kernel_host, dim3(1), dim3(1), nullptr, 0, nullptr),
                cudaFree(nullptr));
  }
} used_at_exit;
__attribute__((destructor)) void after_everything() {
  if (late_module != nullptr) std::printf("destructor: free %d\n", cudaFree(nullptr));
}

TEST(Exit, StaticDestructorsMayCallTheRuntime) {
  const ChildResult result = run_in_child(
      {},
      [] {
        late_module = new Registered;
        EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
      },
      true);
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_NE(result.output.find("static: launch 0 free 0\n"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("unregistered: launch 98 free 0\n"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("destructor: free 0\n"), std::string::npos) << result.output;
}

}  // namespace
