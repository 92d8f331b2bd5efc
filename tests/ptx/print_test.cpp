#include "runtime/ptx/print.h"

#include <gtest/gtest.h>

#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;

void round_trip(const std::string& text) {
  auto first = ptx_test::parse_ok(text);
  const std::string printed = print(*first);
  auto second = ptx_test::parse_ok(printed);
  EXPECT_EQ(ptx_test::difference(*first, *second), "");
  EXPECT_EQ(print(*second), printed);
}

TEST(PtxPrint, RoundTripOfCompiledFiles) {
  for (const std::string& file : ptx_test::files_in(PTX_TEST_DIR, ".ptx")) {
    SCOPED_TRACE(file);
    round_trip(ptx_test::read_file(file));
  }
}

TEST(PtxPrint, RoundTripOfSeeds) {
  size_t parsed = 0;
  for (const std::string& file : ptx_test::files_in(PTX_SEED_DIR, ".ptx")) {
    SCOPED_TRACE(file);
    const std::string text = ptx_test::read_file(file);
    Diagnostic d;
    if (!parse(text, d)) continue;  // some seeds are wrong on purpose
    ++parsed;
    round_trip(text);
  }
  EXPECT_GE(parsed, 5u);
}

TEST(PtxPrint, DifferencesAreSeen) {
  // The comparison itself: one changed token each.
  const std::string base =
      ptx_test::kernel("@%p1 add.s32 %r1, %r2, 3; ld.global.u32 %r1, [%rd1+4]; L: bra L;");
  auto a = ptx_test::parse_ok(base);
  struct {
    const char* from;
    const char* to;
  } edits[] = {{"@%p1", "@!%p1"},    {"%r2, 3", "%r2, 4"},  {"add.s32", "add.u32"},    {"rd1+4", "rd1+8"},
               {"sym[8]", "sym[9]"}, {".visible", ".weak"}, {"L: bra L;", "bra L; L:"}};
  for (const auto& edit : edits) {
    std::string changed = base;
    const size_t at = changed.find(edit.from);
    ASSERT_NE(at, std::string::npos) << edit.from;
    changed.replace(at, std::string(edit.from).size(), edit.to);
    EXPECT_NE(ptx_test::difference(*a, *ptx_test::parse_ok(changed)), "") << edit.to;
  }
}

}  // namespace
