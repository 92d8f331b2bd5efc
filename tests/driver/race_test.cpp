// Planted races are all found, ordered programs give no report. Each case in a fresh process with
// SIMGPU_RACES set.
#include <unistd.h>

#include "tests/driver/driver_test.h"
#include "tests/rerun.h"

namespace {
std::string child(const std::string& environment, const std::string& test) {
  return shunt::test::rerun(environment, "Planted." + test, "^simgpu: race|^out:");
}
bool racy(const std::string& test) {
  return child("SIMGPU_RACES=report", test).find("simgpu: race:") != std::string::npos;
}

struct Planted : driver_test::Driver {
  void SetUp() override {
    Driver::SetUp();
    load();
    OK(cuMemAlloc(&cell, 4096));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  }
  void set(CUstream s, CUdeviceptr p, int v) {
    EXPECT_EQ(run(kernel("set_value"), {&p, &v}, s), CUDA_SUCCESS);
  }
  void copy(CUstream s, CUdeviceptr to, CUdeviceptr from) {
    EXPECT_EQ(run(kernel("copy_value"), {&to, &from}, s), CUDA_SUCCESS);
  }
  CUdeviceptr cell = 0;
  CUstream a = nullptr, b = nullptr, blocking = nullptr;
  CUevent e = nullptr;
};
}  // namespace

// --- racy ---
TEST_F(Planted, DISABLED_MissingEvent) {
  set(a, cell, 1);
  copy(b, cell + 64, cell);
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_WriteWrite) {
  set(a, cell, 1);
  set(b, cell, 2);
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_EventRecordedTooEarly) {
  OK(cuEventRecord(e, a));
  set(a, cell, 1);
  OK(cuStreamWaitEvent(b, e, 0));
  copy(b, cell + 64, cell);
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_MissingJoin) {
  set(a, cell, 1);
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  set(b, cell + 4, 2);
  set(a, cell + 4, 3);  // b forked from a and was never joined again
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_CopyUnderKernel) {
  void* pinned;
  OK(cuMemHostAlloc(&pinned, 4096, 0));
  set(a, cell, 1);
  OK(cuMemcpyDtoHAsync(pinned, cell, 4, b));
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_MemsetAgainstCopy) {
  OK(cuMemsetD32Async(cell, 1, 16, a));
  OK(cuMemcpyDtoDAsync(cell + 256, cell + 32, 64, b));
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_NonBlockingAgainstLegacy) {
  set(nullptr, cell, 1);
  copy(a, cell + 64, cell);
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_WrongStreamSynchronised) {
  set(a, cell, 1);
  OK(cuStreamSynchronize(b));
  copy(b, cell + 64, cell);
  OK(cuCtxSynchronize());
}

// --- ordered ---
TEST_F(Planted, DISABLED_OrderedByEvents) {
  for (int i = 0; i < 50; ++i) {
    set(a, cell, i);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    copy(b, cell + 64, cell);
    OK(cuEventRecord(e, b));
    OK(cuStreamWaitEvent(a, e, 0));
  }
  OK(cuCtxSynchronize());
  printf("out: done\n");
}
TEST_F(Planted, DISABLED_OrderedByHost) {
  for (int i = 0; i < 20; ++i) {
    set(a, cell, i);
    OK(cuStreamSynchronize(a));
    set(b, cell, i);
    while (cuStreamQuery(b) == CUDA_ERROR_NOT_READY) {
    }
    set(a, cell + 8, i);
    OK(cuEventRecord(e, a));
    OK(cuEventSynchronize(e));
    set(b, cell + 8, i);
    OK(cuCtxSynchronize());
  }
  printf("out: done\n");
}
TEST_F(Planted, DISABLED_OrderedByMemoryOperations) {
  for (int i = 1; i < 20; ++i) {
    set(a, cell, i);
    OK(cuStreamWriteValue32(a, cell + 512, unsigned(i), 0));
    OK(cuStreamWaitValue32(b, cell + 512, unsigned(i), CU_STREAM_WAIT_VALUE_EQ));
    copy(b, cell + 64, cell);
    OK(cuStreamWriteValue32(b, cell + 516, unsigned(i), 0));
    OK(cuStreamWaitValue32(a, cell + 516, unsigned(i), CU_STREAM_WAIT_VALUE_EQ));
  }
  OK(cuCtxSynchronize());
  printf("out: done\n");
}
TEST_F(Planted, DISABLED_OrderedByLegacy) {
  for (int i = 0; i < 20; ++i) {
    set(blocking, cell, i);
    set(nullptr, cell, i);
    copy(blocking, cell + 64, cell);
    EXPECT_EQ(read_int(cell + 64), i);
  }
  printf("out: done\n");
}
TEST_F(Planted, DISABLED_ReadersAndDisjointWriters) {
  set(a, cell, 1);
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  OK(cuStreamWaitEvent(blocking, e, 0));
  copy(b, cell + 64, cell);
  copy(blocking, cell + 128, cell);
  copy(a, cell + 192, cell);
  OK(cuCtxSynchronize());
  printf("out: done\n");
}
// Host waits for b alone, but the simulator may have finished a as well: the order must not depend on that.
TEST_F(Planted, DISABLED_FinishedButNotWaitedFor) {
  set(a, cell, 1);
  set(b, cell + 64, 1);
  int rounds = 20000;
  CUdeviceptr elsewhere = cell + 1024;
  OK(run(kernel("burn"), {&elsewhere, &rounds}, b));
  OK(cuStreamSynchronize(b));
  copy(b, cell + 128, cell);
  OK(cuCtxSynchronize());
}

namespace {
constexpr size_t kGrain = size_t{2} << 20;
// The same memory, mapped `times` times in a row.
CUdeviceptr mapped(int times) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  EXPECT_EQ(cuMemCreate(&handle, kGrain, &prop, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressReserve(&base, size_t(times) * kGrain, 0, 0, 0), CUDA_SUCCESS);
  for (int i = 0; i < times; ++i)
    EXPECT_EQ(cuMemMap(base + size_t(i) * kGrain, kGrain, 0, handle, 0), CUDA_SUCCESS);
  CUmemAccessDesc access = {};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_EQ(cuMemSetAccess(base, size_t(times) * kGrain, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  return base;
}
}  // namespace
TEST_F(Planted, DISABLED_SameBytesAtTwoAddresses) {
  const CUdeviceptr base = mapped(2);
  set(a, base, 1);
  copy(b, cell, base + kGrain);
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_UnmapUnderKernel) {
  const CUdeviceptr base = mapped(1);
  set(a, base, 1);
  OK(cuMemUnmap(base, kGrain));
  OK(cuCtxSynchronize());
}
TEST_F(Planted, DISABLED_OrderedMappings) {
  const CUdeviceptr base = mapped(3);
  set(a, base + 256, 1);
  OK(cuMemcpyDtoDAsync(cell, base + kGrain - 64, 128, b));  // over a border, other bytes
  set(a, base + kGrain + 512, 2);
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  copy(b, cell + 256, base + 2 * kGrain + 512);
  OK(cuStreamSynchronize(b));
  OK(cuMemUnmap(base, 3 * kGrain));
  printf("out: done\n");
}
TEST(Races, MappedMemory) {
  const std::string twice = child("SIMGPU_RACES=report", "SameBytesAtTwoAddresses");
  EXPECT_NE(twice.find("bytes 0 to 4 of the 2097152-byte allocation"), std::string::npos) << twice;
  const std::string gone = child("SIMGPU_RACES=report", "UnmapUnderKernel");
  EXPECT_NE(gone.find("cuMemUnmap takes 0x500000000000 to 0x500000200000 away; 'set_value'"),
            std::string::npos)
      << gone;
  EXPECT_EQ(child("SIMGPU_RACES=off", "UnmapUnderKernel"), "");
}

namespace {
int* pinned_pages(int pages) {
  void* p = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&p, size_t(pages) * 4096, 0), CUDA_SUCCESS);
  return static_cast<int*>(p);
}
}  // namespace
TEST_F(Planted, DISABLED_HostReadBeforeSync) {
  volatile int* host = pinned_pages(2);
  CUdeviceptr big;
  OK(cuMemAlloc(&big, 8192));
  OK(cuMemsetD32Async(big, 7, 2048, a));
  OK(cuMemcpyDtoHAsync(const_cast<int*>(host), big, 8192, a));
  printf("out: read %d\n", host[5] == 0 || host[5] == 7);
  OK(cuStreamSynchronize(a));
  printf("out: then %d\n", host[5]);
}
TEST_F(Planted, DISABLED_WriteUnderCopyInFlight) {
  volatile int* host = pinned_pages(2);
  CUdeviceptr big;
  OK(cuMemAlloc(&big, 8192));
  OK(cuMemcpyHtoDAsync(big, const_cast<int*>(host), 8192, a));
  int seen = host[5];  // reading is fine
  host[5] = seen + 1;
  OK(cuStreamSynchronize(a));
}
TEST_F(Planted, DISABLED_OrderedHostAccess) {
  volatile int* host = pinned_pages(2);
  CUdeviceptr big;
  OK(cuMemAlloc(&big, 8192));
  int sum = 0;
  for (int i = 0; i < 10; ++i) {
    host[3] = i;
    OK(cuMemcpyHtoDAsync(big, const_cast<int*>(host), 8192, a));
    sum += host[3];
    OK(cuMemcpyDtoHAsync(const_cast<int*>(host) + 1024, big, 4096, a));
    sum += host[7];
    OK(cuEventRecord(e, a));
    OK(cuEventSynchronize(e));
    sum += host[1024 + 3];
  }
  OK(cuMemFreeHost(const_cast<int*>(host)));
  printf("out: done\n");
}
TEST_F(Planted, DISABLED_HostReadBeforeKernelIsWaitedFor) {
  const int n = 2048;
  volatile int* host = pinned_pages(2);
  CUdeviceptr big, out;
  OK(cuMemAlloc(&big, 8192));
  OK(cuMemsetD32(big, 0x3f800000, 2048));
  OK(cuMemHostGetDevicePointer(&out, const_cast<int*>(host), 0));
  OK(cuCtxSynchronize());
  int count = n;
  OK(run(kernel("vadd"), {&big, &big, &out, &count}, a, 8, 256));
  usleep(100000);  // the progress thread has run it; nobody has waited for it
  printf("out: read %d\n", host[5] == 0 || host[5] == 0x40000000);
  OK(cuStreamSynchronize(a));
  printf("out: then %d\n", host[5] == 0x40000000 && host[1500] == 0x40000000);
}
TEST_F(Planted, DISABLED_HostWatchesAFlag) {  // what mapped memory is for
  volatile int* host = pinned_pages(1);
  CUdeviceptr out;
  OK(cuMemHostGetDevicePointer(&out, const_cast<int*>(host), 0));
  set(a, out, 7);
  while (*host != 7) {
  }
  OK(cuStreamSynchronize(a));
  printf("out: done\n");
}
namespace {
void CUDA_CB read_first_page(void* host) {
  printf("out: function read %d\n", static_cast<volatile int*>(host)[5]);
}
}  // namespace
TEST_F(Planted, DISABLED_HostFunctionReadsWhatCameBefore) {
  int* host = pinned_pages(2);
  CUdeviceptr big;
  OK(cuMemAlloc(&big, 8192));
  OK(cuMemsetD32Async(big, 7, 2048, a));
  OK(cuMemcpyDtoHAsync(host, big, 8192, a));
  OK(cuLaunchHostFunc(a, read_first_page, host));
  OK(cuStreamSynchronize(a));
}
TEST_F(Planted, DISABLED_HostFunctionReadsAnotherStreamsCopy) {
  int* host = pinned_pages(2);
  CUdeviceptr big;
  OK(cuMemAlloc(&big, 8192));
  OK(cuMemsetD32(big, 7, 2048));
  OK(cuCtxSynchronize());
  OK(cuMemcpyDtoHAsync(host, big, 8192, a));
  OK(cuLaunchHostFunc(b, read_first_page, host));
  OK(cuCtxSynchronize());
  printf("out: done\n");
}
// The callback thread is a thread of the program to the page watch: what came before is known, what did not
// is reported, and the access then goes through.
TEST(Races, HostFunctionsSeeWhatCameBeforeThem) {
  EXPECT_EQ(child("SIMGPU_RACES=report", "HostFunctionReadsWhatCameBefore"), "out: function read 7\n");
  const std::string said = child("SIMGPU_RACES=report", "HostFunctionReadsAnotherStreamsCopy");
  EXPECT_NE(said.find("simgpu: race: the host touches"), std::string::npos) << said;
  EXPECT_NE(said.find("out: done"), std::string::npos) << said;
}
TEST(Races, HostAccessesToKernelResultsAreCaught) {
  const std::string said = child("SIMGPU_RACES=report", "HostReadBeforeKernelIsWaitedFor");
  EXPECT_NE(said.find("simgpu: race: the host touches"), std::string::npos) << said;
  EXPECT_NE(said.find("'vadd'"), std::string::npos) << said;
  EXPECT_NE(said.find("out: read 1\nout: then 1"), std::string::npos) << said;
  EXPECT_EQ(child("SIMGPU_RACES=report", "HostWatchesAFlag"), "out: done\n");
}
TEST(Races, HostAccessesAreCaughtByPage) {
  const std::string read = child("SIMGPU_RACES=report", "HostReadBeforeSync");
  EXPECT_NE(read.find("simgpu: race: the host touches"), std::string::npos) << read;
  EXPECT_NE(read.find("memcpy DtoH"), std::string::npos) << read;
  EXPECT_NE(read.find("out: read 1\nout: then 7"), std::string::npos) << read;
  EXPECT_NE(child("SIMGPU_RACES=report", "WriteUnderCopyInFlight").find("simgpu: race: the host writes"),
            std::string::npos);
  EXPECT_EQ(child("SIMGPU_RACES=report", "OrderedHostAccess"), "out: done\n");
  EXPECT_EQ(child("SIMGPU_RACES=report SIMGPU_HOST_PAGES=off", "WriteUnderCopyInFlight"), "");
}

TEST(Races, PlantedOnesAreFound) {
  for (const char* test : {"MissingEvent", "WriteWrite", "EventRecordedTooEarly", "MissingJoin",
                           "CopyUnderKernel", "MemsetAgainstCopy", "NonBlockingAgainstLegacy",
                           "WrongStreamSynchronised", "FinishedButNotWaitedFor"}) {
    EXPECT_TRUE(racy(test)) << test;
  }
}
TEST(Races, FoundUnderEverySeed) {
  for (int seed = 1; seed <= 10; ++seed) {
    const std::string said = child("SIMGPU_RACES=report SIMGPU_SEED=" + std::to_string(seed), "MissingEvent");
    EXPECT_NE(said.find("simgpu: race:"), std::string::npos) << seed;
  }
}
TEST(Races, OrderedProgramsAreQuiet) {
  for (const char* test : {"OrderedByEvents", "OrderedByHost", "OrderedByLegacy", "OrderedByMemoryOperations",
                           "ReadersAndDisjointWriters", "OrderedMappings"}) {
    EXPECT_EQ(child("SIMGPU_RACES=report", test), "out: done\n") << test;
    EXPECT_EQ(child("SIMGPU_RACES=report SIMGPU_SEED=3", test), "out: done\n") << test;
  }
}
TEST(Races, ReportNamesBothSites) {
  const std::string said = child("SIMGPU_RACES=report", "MissingEvent");
  EXPECT_NE(said.find("set_value"), std::string::npos) << said;
  EXPECT_NE(said.find("copy_value"), std::string::npos) << said;
  EXPECT_NE(said.find("bytes 0 to 4 of the 4096-byte allocation"), std::string::npos) << said;
  EXPECT_EQ(child("SIMGPU_RACES=off", "MissingEvent"), "");
}
