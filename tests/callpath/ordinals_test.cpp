// The rim: programs see virtual ordinals only, the driver physical ones only; everything that is no ordinal
// is left alone.
#include <gtest/gtest.h>
#include <string.h>

#include "runtime/exec/hook_tables.h"
#include "runtime/exec/ordinals.h"
#include "tests/callpath/fake_host.h"

namespace shunt::exec {
namespace {

class OrdinalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_host = fake_host();
    FakeDriver::get().reset();
    for (uint32_t slot = 0; slot < SHUNT_SLOT_FIRST_NCCL; slot++)
      if (bears_ordinals(slot)) install(slot, all_hooks()[slot]);
    auto* map = new placement::OrdinalMap();
    ASSERT_TRUE(map->assign({2, 3, 0, 1}));  // virtual 0 is physical 2
    detail::ordinal_map = map;
  }
  void TearDown() override { detail::ordinal_map = nullptr; }
  static FakeDriver& driver() { return FakeDriver::get(); }
};

TEST_F(OrdinalsTest, Devices) {
  CUdevice device = -1;
  EXPECT_EQ(call<SHUNT_SLOT_cuDeviceGet>(&device, 0), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(driver().calls.back(), "cuDeviceGet(2)");
  char name[32];
  EXPECT_EQ(call<SHUNT_SLOT_cuDeviceGetName>(name, 32, CUdevice{1}), CUDA_SUCCESS);
  EXPECT_STREQ(name, "device 3");
  for (const int bad : {-1, 4, 99}) {
    EXPECT_EQ(call<SHUNT_SLOT_cuDeviceGet>(&device, bad), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(driver().calls.back(), "cuDeviceGet(" + std::to_string(bad) + ")");
  }
  int answer = 0;
  call<SHUNT_SLOT_cuDeviceCanAccessPeer>(&answer, CUdevice{0}, CUdevice{3});
  EXPECT_EQ(driver().ordinals_seen, (std::vector<int>{2, 1}));
  driver().ordinal_answer = 3;
  EXPECT_EQ(call<SHUNT_SLOT_cuDeviceGetByPCIBusId>(&device, "0000:1b:00.0"), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(call<SHUNT_SLOT_cuCtxGetDevice>(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  CUcontext context = nullptr;
  call<SHUNT_SLOT_cuDevicePrimaryCtxRetain>(&context, CUdevice{0});
  EXPECT_EQ(driver().ordinals_seen, std::vector<int>{2});
}

TEST_F(OrdinalsTest, UuidNamesThePhysicalDevice) {
  CUuuid uuid{};
  EXPECT_EQ(call<SHUNT_SLOT_cuDeviceGetUuid_v2>(&uuid, CUdevice{0}), CUDA_SUCCESS);
  EXPECT_EQ(uuid.bytes[0], 2) << "the answer is the device's own, only the question is translated";
}

TEST_F(OrdinalsTest, FailedCallsKeepTheirOutputs) {
  driver().result = CUDA_ERROR_DEINITIALIZED;
  CUdevice device = 1;
  driver().ordinal_answer = 3;
  EXPECT_EQ(call<SHUNT_SLOT_cuDeviceGetByPCIBusId>(&device, "x"), CUDA_ERROR_DEINITIALIZED);
  EXPECT_EQ(device, 3) << "what the driver wrote into a failed answer is not ours to interpret";
}

TEST_F(OrdinalsTest, Locations) {
  CUmemAllocationProp prop{};
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(
      call<SHUNT_SLOT_cuMemCreate>(&handle, size_t{1}, static_cast<const CUmemAllocationProp*>(&prop), 0ull),
      CUDA_SUCCESS);
  EXPECT_EQ(driver().ordinals_seen, std::vector<int>{3});
  EXPECT_EQ(prop.location.id, 1) << "the program's structure is not touched";
  for (const auto type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA,
                          CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, static_cast<CUmemLocationType>(77)}) {
    prop.location = {type, 1};
    call<SHUNT_SLOT_cuMemCreate>(&handle, size_t{1}, static_cast<const CUmemAllocationProp*>(&prop), 0ull);
    EXPECT_EQ(driver().ordinals_seen, std::vector<int>{1}) << "NUMA nodes and unknown types are no ordinals";
  }
  call<SHUNT_SLOT_cuMemCreate>(&handle, size_t{1}, static_cast<const CUmemAllocationProp*>(nullptr), 0ull);
  EXPECT_EQ(driver().ordinals_seen, std::vector<int>{-100}) << "null stays null";
  driver().ordinal_answer = 2;
  call<SHUNT_SLOT_cuMemGetAllocationPropertiesFromHandle>(&prop, handle);
  EXPECT_EQ(prop.location.id, 0);
  driver().location_type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  call<SHUNT_SLOT_cuMemGetAllocationPropertiesFromHandle>(&prop, handle);
  EXPECT_EQ(prop.location.id, 2);
}

TEST_F(OrdinalsTest, ArraysOfAnyLength) {
  std::vector<CUmemAccessDesc> descs(20);
  for (int i = 0; i < 20; i++)
    descs[static_cast<size_t>(i)].location = {
        i % 2 ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA, i % 4};
  const auto copy = descs;
  call<SHUNT_SLOT_cuMemSetAccess>(CUdeviceptr{0x1000}, size_t{64},
                                  static_cast<const CUmemAccessDesc*>(descs.data()), descs.size());
  for (int i = 0; i < 20; i++)
    EXPECT_EQ(driver().ordinals_seen[static_cast<size_t>(i)], i % 2 ? (i % 4 + 2) % 4 : i % 4);
  EXPECT_EQ(memcmp(copy.data(), descs.data(), descs.size() * sizeof descs[0]), 0);
}

TEST_F(OrdinalsTest, AdviceAndAttributes) {
  call<SHUNT_SLOT_cuMemAdvise_v2>(CUdeviceptr{1}, size_t{1}, CU_MEM_ADVISE_SET_ACCESSED_BY,
                                  CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, 0});
  EXPECT_EQ(driver().ordinals_seen, std::vector<int>{2});
  call<SHUNT_SLOT_cuMemAdvise>(CUdeviceptr{1}, size_t{1}, CU_MEM_ADVISE_SET_ACCESSED_BY,
                               CUdevice{CU_DEVICE_CPU});
  EXPECT_EQ(driver().ordinals_seen, std::vector<int>{CU_DEVICE_CPU});
  driver().ordinal_answer = 2;
  int value = -5;
  call<SHUNT_SLOT_cuPointerGetAttribute>(static_cast<void*>(&value), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                         CUdeviceptr{1});
  EXPECT_EQ(value, 0);
  call<SHUNT_SLOT_cuPointerGetAttribute>(static_cast<void*>(&value), CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         CUdeviceptr{1});
  EXPECT_EQ(value, 2) << "other attributes are no ordinals";
  int several[3];
  call<SHUNT_SLOT_cuMemRangeGetAttribute>(static_cast<void*>(several), sizeof several,
                                          CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, CUdeviceptr{1}, size_t{1});
  EXPECT_EQ(several[0] + several[1] + several[2], 0);
  call<SHUNT_SLOT_cuMemRangeGetAttribute>(static_cast<void*>(&value), sizeof value,
                                          CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, CUdeviceptr{1},
                                          size_t{1});
  EXPECT_EQ(value, 0);
  driver().location_type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  call<SHUNT_SLOT_cuMemRangeGetAttribute>(static_cast<void*>(&value), sizeof value,
                                          CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, CUdeviceptr{1},
                                          size_t{1});
  EXPECT_EQ(value, 2) << "a NUMA node is no ordinal";
}

TEST_F(OrdinalsTest, GraphAllocationNodes) {
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  p.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  p.accessDescs = &access;
  p.accessDescCount = 1;
  CUgraphNode node = nullptr;
  call<SHUNT_SLOT_cuGraphAddMemAllocNode>(&node, static_cast<CUgraph>(nullptr),
                                          static_cast<const CUgraphNode*>(nullptr), size_t{0}, &p);
  EXPECT_EQ(driver().ordinals_seen, (std::vector<int>{2, 3}));
  EXPECT_EQ(p.dptr, 0xABC000u);
  EXPECT_EQ(p.accessDescs, &access);
  EXPECT_EQ(p.poolProps.location.id, 0);
}

TEST_F(OrdinalsTest, WithoutAMapNothingIsTranslated) {
  detail::ordinal_map = nullptr;
  CUdevice device = -1;
  call<SHUNT_SLOT_cuDeviceGet>(&device, 3);
  EXPECT_EQ(device, 3);
  EXPECT_EQ(driver().calls.back(), "cuDeviceGet(3)");
}

// Every function whose signature has a CUdevice by value or pointer is in ordinals.def or rim.h: counted from
// the generated signatures, so that a new toolkit's functions cannot be forgotten.
TEST_F(OrdinalsTest, TableIsComplete) {
  FILE* file = fopen(SHUNT_SIGNATURES, "r");
  ASSERT_NE(file, nullptr);
  char line[2048];
  int found = 0;
  while (fgets(line, sizeof line, file)) {
    char* name = strstr(line, "*ShuntFn_");
    if (!name || strncmp(line, "typedef", 7) != 0) continue;
    name += strlen("*ShuntFn_");
    const std::string symbol(name, strchr(name, ')'));
    const std::string parameters = strchr(name, '(');
    bool bears = false;
    for (const char* type :
         {"CUdevice ", "CUdevice_v1 ", "CUdevice *", "CUmemLocation", "CUmemPoolProps", "CUmemAllocationProp",
          "CUmemAccessDesc", "CUmemcpyAttributes", "MEMCPY3D_BATCH_OP", "MEM_ALLOC_NODE_PARAMS"})
      bears = bears || parameters.find(type) != std::string::npos;
    if (!bears) continue;
    found++;
    for (uint32_t slot = 0; slot < SHUNT_SLOT_FIRST_NCCL; slot++)
      EXPECT_TRUE(symbol != kSlots[slot].symbol || bears_ordinals(slot)) << symbol;
  }
  fclose(file);
  EXPECT_GT(found, 70);
}

}  // namespace
}  // namespace shunt::exec
