// SIMGPU_MEMCHECK: reads of device memory that nothing has written are found wherever they happen, and
// programs that write first are not accused. Each case in a fresh process.
#include "tests/driver/driver_test.h"
#include "tests/rerun.h"

namespace {
std::string child(const std::string& environment, const std::string& test) {
  return shunt::test::rerun(environment, "Unwritten." + test, "^simgpu: memcheck|FAILED|^out:");
}
std::string on(const std::string& test) { return child("SIMGPU_MEMCHECK=report", test); }
size_t reports(const std::string& text) {
  size_t n = 0;
  for (size_t at = text.find("memcheck:"); at != std::string::npos; at = text.find("memcheck:", at + 1)) ++n;
  return n;
}

struct Unwritten : driver_test::Driver {
  void SetUp() override {
    Driver::SetUp();
    load();
    OK(cuMemAlloc(&cell, 4096));
    OK(cuMemAlloc(&other, 4096));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  }
  void set(CUdeviceptr p, int v) { OK(run(kernel("set_value"), {&p, &v}, a)); }
  void copy(CUdeviceptr to, CUdeviceptr from) { OK(run(kernel("copy_value"), {&to, &from}, a)); }
  void add_vectors(int n) {
    const CUdeviceptr second = cell + 2048;
    OK(run(kernel("vadd"), {&cell, const_cast<CUdeviceptr*>(&second), &other, &n}, a, 4, 64));
  }
  CUdeviceptr cell = 0, other = 0;
  CUstream a = nullptr;
};
}  // namespace

// --- planted ---
TEST_F(Unwritten, DISABLED_Kernel) {
  copy(other, cell + 12);
  OK(cuCtxSynchronize());
}
TEST_F(Unwritten, DISABLED_OneElementOfMany) {  // all but number 77 were written
  OK(cuMemsetD8(cell, 0, 77 * 4));
  OK(cuMemsetD8(cell + 78 * 4, 0, 4096 - 78 * 4));
  add_vectors(256);
  OK(cuCtxSynchronize());
}
TEST_F(Unwritten, DISABLED_Update) {
  int one = 1;
  OK(run(kernel("add_value"), {&cell, &one}, a));
  OK(cuCtxSynchronize());
}
TEST_F(Unwritten, DISABLED_CopyToHost) {
  int values[4];
  set(cell, 1);
  OK(cuStreamSynchronize(a));
  OK(cuMemcpyDtoH(values, cell, sizeof values));
}
TEST_F(Unwritten, DISABLED_ThroughADeviceCopy) {  // the copy is innocent, who reads its result is not
  OK(cuMemcpyDtoDAsync(other, cell, 256, a));
  copy(other + 1024, other + 8);
  OK(cuCtxSynchronize());
}
TEST_F(Unwritten, DISABLED_PoolMemoryUsedAgain) {
  CUdeviceptr p = 0, q = 0;
  OK(cuMemAllocAsync(&p, 512, a));
  set(p, 3);
  OK(cuMemFreeAsync(p, a));
  OK(cuMemAllocAsync(&q, 512, a));
  copy(other, q);
  OK(cuCtxSynchronize());
}
// --- correct ---
TEST_F(Unwritten, DISABLED_WrittenFirst) {
  int values[4] = {1, 2, 3, 4};
  OK(cuMemcpyHtoD(cell, values, sizeof values));
  copy(other, cell + 12);
  OK(cuMemsetD32Async(cell + 64, 5, 16, a));
  copy(other + 4, cell + 64 + 60);
  OK(cuMemcpyDtoDAsync(cell + 1024, other, 8, a));
  copy(other + 8, cell + 1028);
  OK(cuStreamWriteValue32(a, cell + 512, 9, 0));
  copy(other + 12, cell + 512);
  OK(cuStreamSynchronize(a));
  OK(cuMemcpyDtoH(values, other, sizeof values));
  EXPECT_EQ(values[0], 4);
  EXPECT_EQ(values[1], 5);
  EXPECT_EQ(values[2], 5);
  EXPECT_EQ(values[3], 9);
  OK(cuMemsetD8(cell, 0, 4096));
  add_vectors(256);
  OK(cuStreamSynchronize(a));
  printf("out: done\n");
}
TEST_F(Unwritten, DISABLED_ManagedAndGlobals) {  // the host and the loader write these
  CUdeviceptr managed, global;
  size_t bytes;
  OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  copy(other, managed);
  OK(cuModuleGetGlobal(&global, &bytes, module, "table"));
  copy(other, global);
  OK(cuStreamSynchronize(a));
  printf("out: done\n");
}

TEST(Memcheck, PlantedOnesAreFound) {
  for (const char* test :
       {"Kernel", "OneElementOfMany", "Update", "CopyToHost", "ThroughADeviceCopy", "PoolMemoryUsedAgain"}) {
    const std::string said = on(test);
    EXPECT_EQ(reports(said), 1u) << test << "\n" << said;
    EXPECT_EQ(said.find("FAILED"), std::string::npos) << test << "\n" << said;
    EXPECT_EQ(child("SIMGPU_MEMCHECK=off", test), "") << test;
    EXPECT_EQ(child("", test), "") << test;
  }
}
TEST(Memcheck, ReportNamesKernelLineThreadAndAllocation) {
  const std::string said = on("OneElementOfMany");
  EXPECT_NE(said.find("kernel 'vadd' (PTX line "), std::string::npos) << said;
  EXPECT_EQ(said.find("PTX line 0"), std::string::npos) << said;
  EXPECT_NE(said.find("block (1,0,0), thread (13,0,0)"), std::string::npos) << said;
  EXPECT_NE(said.find("byte 308 of the 4096-byte allocation"), std::string::npos) << said;
  EXPECT_NE(on("CopyToHost").find("byte 4 of the"), std::string::npos);
}
TEST(Memcheck, CorrectProgramsAreQuiet) {
  for (const char* test : {"WrittenFirst", "ManagedAndGlobals"}) {
    EXPECT_EQ(on(test), "out: done\n") << test;
    EXPECT_EQ(child("SIMGPU_MEMCHECK=report SIMGPU_RACES=report", test), "out: done\n") << test;
  }
}
