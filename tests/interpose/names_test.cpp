// The generated name tables: complete, exact, and hashed the way the generator hashes.
#include "interpose/names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "interpose/state.h"

namespace shunt::interpose {
namespace {

struct Info {
  const char* symbol;
  const char* base;
  int version, flag;
  const char* library;
};
const Info kInfo[] = {
#define SHUNT_SLOT_INFO(symbol, base, version, flag, kind, library) {#symbol, #base, version, flag, #library},
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO
};

TEST(Names, EverySymbolFindsItsSlot) {
  ASSERT_EQ(std::size(kInfo), static_cast<size_t>(SHUNT_SLOT_COUNT));
  for (unsigned slot = 0; slot < SHUNT_SLOT_COUNT; ++slot) {
    const NameRow* row = find_name(kInfo[slot].symbol);
    ASSERT_NE(row, nullptr) << kInfo[slot].symbol;
    EXPECT_EQ(row->slot, slot) << kInfo[slot].symbol;
    EXPECT_STREQ(slot_symbol(slot), kInfo[slot].symbol);
  }
  EXPECT_EQ(find_name("dlsym")->slot, kNameDlsym);
  EXPECT_EQ(find_name("dlvsym")->slot, kNameDlvsym);
}

TEST(Names, EveryDriverVersionIsListedUnderItsBaseNameNewestFirst) {
  std::set<unsigned> listed;
  for (const Info& info : kInfo) {
    if (std::string(info.library) != "cuda") continue;
    const NameRow* row = find_name(info.base);
    ASSERT_NE(row, nullptr) << info.base;
    bool found = false;
    for (unsigned i = 0; i < row->version_count; ++i) {
      const VersionRow& version = versions_of(*row)[i];
      if (i) {
        EXPECT_LE(version.version, versions_of(*row)[i - 1].version) << info.base;
      }
      found |= version.version == info.version && version.flag == info.flag &&
               std::string(slot_symbol(version.slot)) == info.symbol;
      listed.insert(version.slot);
    }
    EXPECT_TRUE(found) << info.symbol;
  }
  EXPECT_EQ(listed.size(), static_cast<size_t>(SHUNT_SLOT_FIRST_NCCL));
}

TEST(Names, OnlyExactNamesMatch) {
  for (const char* name :
       {"", "c", "cu", "cuIni", "cuInit_", "cuInit_v2", "cuMemAlloc_v", "cudaMalloc", "cublasCreate_v2",
        "nccl", "ncclAllReduc", "pnccl", "dlsy", "dlsymx", "dlopen", "CUInit", "cuinit"})
    EXPECT_EQ(find_name(name), nullptr) << name;
}

// The pinned values make the Python and the C hash agree by more than luck of the table.
TEST(Names, HashIsTheGeneratorsHash) {
  EXPECT_EQ(name_hash(""), 0u);
  EXPECT_EQ(name_hash("a"), 0x3fcb57c5u);
  EXPECT_EQ(name_hash("cuInit"), 0x4f5d7466u);
  EXPECT_EQ(name_hash("cuMemAlloc_v2"), 0x9086de9eu);
}

}  // namespace
}  // namespace shunt::interpose
