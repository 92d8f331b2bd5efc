// Scopes, labels, directives of functions and modules.
#include <gtest/gtest.h>

#include "runtime/ptx/print.h"
#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;

const char* const kHead = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n";

TEST(PtxModule, Header) {
  auto module =
      ptx_test::parse_ok(".version 8.10\n.target sm_100a, texmode_independent, debug\n.address_size 32\n");
  EXPECT_EQ(module->version_major, 8u);
  EXPECT_EQ(module->version_minor, 10u);
  EXPECT_EQ(module->target, "sm_100a");
  EXPECT_EQ(module->target_options, (std::vector<std::string>{"texmode_independent", "debug"}));
  EXPECT_EQ(module->address_size, 32u);
}

TEST(PtxModule, DebugInformationIsSkipped) {
  auto module = ptx_test::parse_ok(
      std::string(kHead) +
      ".file 1 \"a b.cu\", 12, 34\n.file 2 \"c.h\"\n.pragma \"x\";\n"
      ".entry k() { .loc 1 2 3\n L: .loc 1 2 3, function_name $L+4, inlined_at 1 5 6\n .pragma \"nounroll\"; "
      "ret; }\n"
      ".section .debug_info\n{\n.b32 1, .debug_abbrev\n$L: .b64 L+4\n.b8 0xFF, -1, 'x'\n}\n");
  ASSERT_EQ(module->functions.size(), 1u);
  EXPECT_EQ(module->functions[0].body.size(), 1u);
  EXPECT_EQ(module->functions[0].labels.size(), 1u);
}

TEST(PtxFunction, Directives) {
  auto module = ptx_test::parse_ok(std::string(kHead) +
                                   ".visible .entry k() .maxntid 128, 2 .reqntid 64,1,1 .minnctapersm 3 "
                                   ".maxnreg 40 .maxclusterrank 8 .reqnctapercluster 2,2,1\n"
                                   ".explicitcluster .blocksareclusters .pragma \"x\"; { ret; }\n.extern "
                                   ".func (.param .b32 r) f(.param .b64 p) .noreturn;\n"
                                   ".weak .func g .abi_preserve 3 { ret; }\n.alias h, g;\n.func h();\n");
  ASSERT_EQ(module->functions.size(), 4u);
  const Function& k = module->functions[0];
  EXPECT_TRUE(k.is_entry);
  EXPECT_EQ(k.linkage, Linkage::visible);
  EXPECT_EQ(k.maxntid[0], 128u);
  EXPECT_EQ(k.maxntid[1], 2u);
  EXPECT_EQ(k.maxntid[2], 1u);
  EXPECT_EQ(k.reqntid[0], 64u);
  EXPECT_EQ(k.minnctapersm, 3u);
  EXPECT_EQ(k.maxnreg, 40u);
  EXPECT_EQ(k.maxclusterrank, 8u);
  EXPECT_EQ(k.reqnctapercluster[1], 2u);
  EXPECT_TRUE(k.explicitcluster);
  EXPECT_TRUE(k.blocks_are_clusters);
  const Function& f = module->functions[1];
  EXPECT_TRUE(f.is_declaration);
  EXPECT_TRUE(f.noreturn);
  EXPECT_EQ(f.returns.size(), 1u);
  EXPECT_EQ(f.linkage, Linkage::external);
  EXPECT_EQ(module->functions[2].linkage, Linkage::weak);
  ASSERT_EQ(module->aliases.size(), 1u);
  EXPECT_EQ(module->aliases[0].second, "g");
}

TEST(PtxFunction, InnerScopesAreRenamedApart) {
  auto module = ptx_test::parse_ok(
      ptx_test::kernel("{ .reg .b32 t; .reg .b64 q<3>; mov.b32 t, %r1; mov.b64 q2, %rd1; { .reg .b32 t; "
                       "mov.b32 t, 1; mov.b64 q0, %rd2; } add.s32 t, t, 1; }\n"
                       "{ .reg .b32 t; mov.b32 t, 2; .reg .b32 %r<2>; mov.b32 %r1, %r2; }"));
  const Function* k = ptx_test::find(*module, "k");
  ASSERT_EQ(k->body.size(), 8u);
  EXPECT_EQ(print(k->body[0]), "mov.b32 t@1, %r1;");
  EXPECT_EQ(print(k->body[1]), "mov.b64 q@1@2, %rd1;");
  EXPECT_EQ(print(k->body[2]), "mov.b32 t@2, 1;");
  EXPECT_EQ(print(k->body[3]), "mov.b64 q@1@0, %rd2;");
  EXPECT_EQ(print(k->body[4]), "add.s32 t@1, t@1, 1;");
  EXPECT_EQ(print(k->body[5]), "mov.b32 t@3, 2;");
  EXPECT_EQ(print(k->body[6]), "mov.b32 %r@3@1, %r2;");
  for (const Variable& v : k->locals) {
    if (v.name == "q@1@") {
      EXPECT_EQ(v.reg_count, 3u);
      return;
    }
  }
  FAIL() << "no range q@1@";
}

TEST(PtxFunction, LabelsBelongToTheirScope) {
  auto module = ptx_test::parse_ok(
      ptx_test::kernel("{ @%p1 bra L; bra OUT; L: nop; }\n{ L: bra L; }\nbra L;\nL: nop;\nOUT:"));
  const Function* k = ptx_test::find(*module, "k");
  EXPECT_EQ(print(k->body[0]), "@%p1 bra L@1;");
  EXPECT_EQ(print(k->body[1]), "bra OUT;");
  EXPECT_EQ(print(k->body[3]), "bra L@2;");
  EXPECT_EQ(print(k->body[4]), "bra L;");
  EXPECT_EQ(k->body[4].operands[0].kind, Operand::Kind::label);
  ASSERT_EQ(k->labels.size(), 4u);
  EXPECT_EQ(k->labels[0].name, "L@1");
  EXPECT_EQ(k->labels[0].index, 2u);
  EXPECT_EQ(k->labels[3].name, "OUT");
  EXPECT_EQ(k->labels[3].index, 6u);
}

TEST(PtxFunction, BranchTargets) {
  auto module = ptx_test::parse_ok(
      ptx_test::kernel("{ t: .branchtargets A, B, C; brx.idx %r1, t; A: nop; B: nop; }\nC:"));
  const Function* k = ptx_test::find(*module, "k");
  ASSERT_EQ(k->branch_targets.size(), 1u);
  EXPECT_EQ(k->branch_targets[0].name, "t@1");
  EXPECT_EQ(k->branch_targets[0].labels, (std::vector<std::string>{"A@1", "B@1", "C"}));
  EXPECT_EQ(k->body[0].operands[1].kind, Operand::Kind::label);
  EXPECT_EQ(k->body[0].operands[1].symbol, "t@1");
}

TEST(PtxFunction, RegisterRanges) {
  // %r10 is index 10 of %r<11>, or index 0 of %r1<1>: whichever is declared.
  auto module = ptx_test::parse_ok(
      ".version 9.0\n.target sm_90\n.entry k() { .reg .b32 %a1<2>, %b<12>, %c<0>; mov.b32 %a10, %b10; ret; "
      "}");
  const Function* k = ptx_test::find(*module, "k");
  EXPECT_EQ(print(k->body[0]), "mov.b32 %a10, %b10;");
  ASSERT_EQ(k->locals.size(), 2u) << "%c<0> declares nothing";
  EXPECT_EQ(k->locals[1].reg_count, 12u);
}

}  // namespace
