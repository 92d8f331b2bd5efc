// The rule for the image that a device takes: highest runnable PTX, best compatible cubin.
#include <gtest/gtest.h>

#include "tests/binary/support.h"

namespace {

using namespace shunt::binary;

std::vector<Entry> entries(const std::vector<std::string>& names) {  // "ptx75", "elf100a", "ptx100f"
  std::vector<Entry> result;
  for (const std::string& name : names) {
    Entry e;
    e.kind = name.compare(0, 3, "ptx") == 0 ? Entry::Kind::ptx : Entry::Kind::elf;
    e.sm = static_cast<uint32_t>(std::stoul(name.substr(3)));
    e.arch_specific = name.back() == 'a';
    e.family_specific = name.back() == 'f' && name != "elf";
    result.push_back(e);
  }
  return result;
}
std::string chosen(const std::vector<std::string>& names, uint32_t cc, bool newer = false) {
  const Choice c = choose(entries(names), cc, newer);
  return (c.elf < 0 ? "-" : names[static_cast<size_t>(c.elf)]) + " " +
         (c.ptx < 0 ? "-" : names[static_cast<size_t>(c.ptx)]);
}

TEST(Choose, Ptx) {
  EXPECT_EQ(chosen({"ptx75", "ptx90", "ptx120"}, 100), "- ptx90");
  EXPECT_EQ(chosen({"ptx75", "ptx90", "ptx120"}, 75), "- ptx75");
  EXPECT_EQ(chosen({"ptx75", "ptx90", "ptx120"}, 121), "- ptx120");
  EXPECT_EQ(chosen({"ptx90"}, 80), "- -");
  EXPECT_EQ(chosen({}, 90), "- -");
}

TEST(Choose, ArchitectureSpecificIsExact) {
  EXPECT_EQ(chosen({"ptx90", "ptx100a"}, 103), "- ptx90");
  EXPECT_EQ(chosen({"ptx90", "ptx100a"}, 100), "- ptx100a");
  EXPECT_EQ(chosen({"ptx90a"}, 100), "- -");
  EXPECT_EQ(chosen({"elf90", "elf100a"}, 103), "- -");
  EXPECT_EQ(chosen({"elf100", "elf100a"}, 100), "elf100a -");
  EXPECT_EQ(chosen({"elf100", "elf103a"}, 103), "elf103a -");
}

TEST(Choose, FamilyIsTheMajorNumber) {
  EXPECT_EQ(chosen({"ptx75", "ptx100f"}, 103), "- ptx100f");
  EXPECT_EQ(chosen({"ptx75", "ptx100f"}, 110), "- ptx75");
  EXPECT_EQ(chosen({"ptx75", "ptx103f"}, 100), "- ptx75");
  EXPECT_EQ(chosen({"elf100f"}, 103), "elf100f -");
  EXPECT_EQ(chosen({"elf100f"}, 110), "- -");
  EXPECT_EQ(chosen({"ptx120f"}, 121), "- ptx120f");
  EXPECT_EQ(chosen({"ptx100", "ptx100f", "ptx100a"}, 100), "- ptx100a");
  EXPECT_EQ(chosen({"ptx100", "ptx100f", "ptx100a"}, 103), "- ptx100f");
}

TEST(Choose, Cubins) {
  EXPECT_EQ(chosen({"elf80", "elf86", "elf90"}, 89), "elf86 -");
  EXPECT_EQ(chosen({"elf80", "elf86", "elf90"}, 80), "elf80 -");
  EXPECT_EQ(chosen({"elf80", "elf86", "elf90"}, 75), "- -");
  EXPECT_EQ(chosen({"elf80", "ptx80"}, 90), "- ptx80");
  EXPECT_EQ(chosen({"ptx80", "elf90", "elf80"}, 90), "elf90 ptx80");
}

TEST(Choose, NewerPtxOnlyWhenAllowed) {
  EXPECT_EQ(chosen({"ptx120", "ptx121"}, 100), "- -");
  EXPECT_EQ(chosen({"ptx121", "ptx120"}, 100, true), "- ptx120");
  EXPECT_EQ(chosen({"ptx90", "ptx120"}, 100, true), "- ptx90") << "not needed";
  EXPECT_EQ(chosen({"ptx120a", "ptx120f"}, 100, true), "- -") << "specific code never runs elsewhere";
}

TEST(Choose, CompiledFile) {
  const std::string image = binary_test::read_made("size.fatbin");
  std::vector<Entry> all;
  std::string error;
  ASSERT_TRUE(read_container(binary_test::bytes(image), image.size(), all, error));
  struct {
    uint32_t cc, elf_sm, ptx_sm;
    bool ptx_a, ptx_f;
  } cases[] = {{75, 75, 75, false, false},   {86, 0, 75, false, false},  {90, 90, 90, false, false},
               {100, 100, 100, true, false}, {103, 0, 100, false, true}, {120, 0, 90, false, false}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.cc);
    const Choice choice = choose(all, c.cc);
    EXPECT_EQ(choice.elf < 0 ? 0 : all[static_cast<size_t>(choice.elf)].sm, c.elf_sm);
    ASSERT_GE(choice.ptx, 0);
    EXPECT_EQ(all[static_cast<size_t>(choice.ptx)].sm, c.ptx_sm);
    EXPECT_EQ(all[static_cast<size_t>(choice.ptx)].arch_specific, c.ptx_a);
    EXPECT_EQ(all[static_cast<size_t>(choice.ptx)].family_specific, c.ptx_f);
  }
  EXPECT_EQ(choose(all, 70).ptx, -1);
}

}  // namespace
