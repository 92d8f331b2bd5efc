#include <gtest/gtest.h>

#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;
using Element = Initializer::Element;

std::vector<Variable> globals(const std::string& text) {
  return ptx_test::parse_ok(".version 9.0\n.target sm_90\n" + text)->variables;
}
Variable one(const std::string& text) {
  auto all = globals(text);
  EXPECT_FALSE(all.empty()) << text;
  return all.empty() ? Variable() : all.back();
}
std::vector<uint64_t> bits(const Variable& v) {
  std::vector<uint64_t> result;
  for (const auto& e : v.init.elements) result.push_back(e.bits);
  return result;
}

TEST(PtxVariable, Qualifiers) {
  Variable v = one(".visible .global .align 16 .v4 .f32 v[3][5];");
  EXPECT_EQ(v.name, "v");
  EXPECT_EQ(v.space, Space::global);
  EXPECT_EQ(v.linkage, Linkage::visible);
  EXPECT_EQ(v.type, Type::f32);
  EXPECT_EQ(v.vector, 4);
  EXPECT_EQ(v.align, 16u);
  EXPECT_EQ(v.dims, (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(v.size_bytes(), 240u);
  v = one(".extern .shared .align 16 .b8 d[];");
  EXPECT_EQ(v.dims, (std::vector<uint64_t>{0}));
  EXPECT_EQ(v.size_bytes(), 0u);
  EXPECT_EQ(v.linkage, Linkage::external);
  EXPECT_TRUE(one(".global .attribute(.managed) .align 4 .b32 m;").managed);
  EXPECT_FALSE(one(".global .attribute(.unified(1, 2)) .b32 m;").managed);
  EXPECT_EQ(one(".common .global .b32 c;").linkage, Linkage::common);
  EXPECT_EQ(one(".weak .const .b64 c;").space, Space::constant);
  EXPECT_EQ(one(".global .texref t;").size_bytes(), 8u);
  EXPECT_EQ(one(".global .samplerref s = { addr_mode_0 = wrap, filter_mode = linear };").type,
            Type::samplerref);
}

TEST(PtxVariable, Lists) {
  auto all = globals(".global .b32 a, b = 3, c[2] = {4, 5};");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].init.elements.empty());
  EXPECT_EQ(bits(all[1]), (std::vector<uint64_t>{3}));
  EXPECT_EQ(bits(all[2]), (std::vector<uint64_t>{4, 5}));
}

TEST(PtxVariable, NumbersTakeTheVariablesType) {
  EXPECT_EQ(bits(one(".global .b8 a[3] = {-1, 300, 0x7F};")), (std::vector<uint64_t>{255, 44, 127}));
  EXPECT_EQ(bits(one(".global .s64 a = -1;")), (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(bits(one(".global .f32 a[4] = {1.5, -2.0, 0f3F800000, 0d4000000000000000};")),
            (std::vector<uint64_t>{0x3fc00000, 0xc0000000, 0x3f800000, 0x40000000}));
  EXPECT_EQ(bits(one(".global .f64 a[2] = {0f40000000, 0.1};")),
            (std::vector<uint64_t>{0x4000000000000000, 0x3fb999999999999a}));
  EXPECT_EQ(bits(one(".global .b32 a = 0f3F800000;")), (std::vector<uint64_t>{0x3f800000}));
  EXPECT_EQ(bits(one(".global .b32 a[2] = {1.1, 0d3FF8000000000000};")),
            (std::vector<uint64_t>{0x3f8ccccd, 0x3fc00000}));
  EXPECT_EQ(bits(one(".global .b16 a[2] = {1.1, 0f3F8CCCCD};")), (std::vector<uint64_t>{0x999a, 0xcccd}));
  EXPECT_EQ(bits(one(".global .b64 a[2] = {1.1, 0f3F8CCCCD};")),
            (std::vector<uint64_t>{0x3ff199999999999a, 0x3f8ccccd}));
  EXPECT_EQ(bits(one(".global .b32 a = (1 + 2) * 3;")), (std::vector<uint64_t>{9}));
}

TEST(PtxVariable, InnerBracesArePadded) {
  EXPECT_EQ(bits(one(".global .b32 a[2][3] = {{1}, {2, 3}};")), (std::vector<uint64_t>{1, 0, 0, 2, 3}));
  EXPECT_EQ(bits(one(".global .b32 a[2][2][2] = {{{1}}, {{2}, {3}}};")),
            (std::vector<uint64_t>{1, 0, 0, 0, 2, 0, 3}));
  EXPECT_EQ(bits(one(".global .v2 .f32 a[2] = {{1.0, 2.0}, {3.0, 4.0}};")),
            (std::vector<uint64_t>{0x3f800000, 0x40000000, 0x40400000, 0x40800000}));
  EXPECT_EQ(bits(one(".global .b32 a[][2] = {{1, 2}, {3}, {4}};")),
            (std::vector<uint64_t>{1, 2, 3, 0, 4, 0}));
  EXPECT_EQ(bits(one(".global .b32 a[][2] = {{1, 2}, {}};")), (std::vector<uint64_t>{1, 2, 0, 0}));
  EXPECT_TRUE(bits(one(".global .b32 a[4] = {};")).empty());
}

TEST(PtxVariable, Addresses) {
  Variable v =
      one(".global .b32 q; .func f() { ret; } .global .align 8 .u64 p[5] = {q, q+4, generic(q), "
          "generic(q)+8, f};");
  ASSERT_EQ(v.init.elements.size(), 5u);
  for (const auto& e : v.init.elements) EXPECT_EQ(e.kind, Element::Kind::symbol);
  EXPECT_EQ(v.init.elements[1].addend, 4);
  EXPECT_FALSE(v.init.elements[1].generic);
  EXPECT_TRUE(v.init.elements[3].generic);
  EXPECT_EQ(v.init.elements[3].addend, 8);
  EXPECT_EQ(v.init.elements[4].symbol, "f");
  v = one(".global .b32 q; .global .u8 p[3] = {0xFF(q), 0xFF00(q+4), 0xFF0000(generic(q)+8)};");
  ASSERT_EQ(v.init.elements.size(), 3u);
  EXPECT_EQ(v.init.elements[1].kind, Element::Kind::mask);
  EXPECT_EQ(v.init.elements[1].addend, 0xff00);
  EXPECT_EQ(v.init.elements[1].bits, 4u);
  EXPECT_TRUE(v.init.elements[2].generic);
  EXPECT_EQ(v.init.elements[2].bits, 8u);
}

TEST(PtxVariable, Parameters) {
  auto module = ptx_test::parse_ok(
      ".version 9.0\n.target sm_90\n.entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 "
      "b[24], .param .u64 .ptr c,"
      " .param .f32 d) { ret; }");
  const auto& params = module->functions[0].params;
  ASSERT_EQ(params.size(), 4u);
  EXPECT_TRUE(params[0].is_ptr);
  EXPECT_EQ(params[0].ptr_space, Space::global);
  EXPECT_EQ(params[0].ptr_align, 16u);
  EXPECT_EQ(params[0].align, 0u);
  EXPECT_EQ(params[1].align, 8u);
  EXPECT_EQ(params[1].size_bytes(), 24u);
  EXPECT_TRUE(params[2].is_ptr);
  EXPECT_EQ(params[2].ptr_space, Space::none);
  EXPECT_FALSE(params[3].is_ptr);
}

}  // namespace
