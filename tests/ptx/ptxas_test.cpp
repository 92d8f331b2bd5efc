// The toolkit's assembler as judge: the parser refuses what ptxas refuses in grammar and names, takes what
// ptxas takes, and a printed module assembles to the same bytes as its source.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "runtime/ptx/print.h"
#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;

class PtxasTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shunt_ptxas_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    if (!folder_.empty()) std::system(("rm -rf " + folder_).c_str());
  }
  // The cubin, or "" when ptxas refuses the text.
  std::string assemble(const std::string& text, const std::string& target, const std::string& options = "") {
    std::ofstream(folder_ + "/in.ptx") << text;
    unlink((folder_ + "/out").c_str());
    const std::string command = std::string(PTXAS) + " -arch=" + target + " " + options + " " + folder_ +
                                "/in.ptx -o " + folder_ + "/out > " + folder_ + "/log 2>&1";
    if (std::system(command.c_str()) != 0) return "";
    return ptx_test::read_file(folder_ + "/out");
  }
  void agree(const std::string& text) {
    Diagnostic d;
    const bool ours = parse(text, d) != nullptr;
    EXPECT_EQ(ours, !assemble(text, "sm_90").empty())
        << text << "\nours: " << d.message << "\nptxas: " << ptx_test::read_file(folder_ + "/log");
  }
  std::string folder_;
};

TEST_F(PtxasTest, StatementsAreJudgedAlike) {
  for (const char* text : {"ld.global.u32 %r1,[sym+-4];",
                           "ld.global.u32 %r1,[sym-4];",
                           "ld.global.u32 %r1,[%rd1-4];",
                           "ld.global.u32 %r1,sym[3];",
                           "mov.u64 %rd1, sym[2];",
                           "mov.u64 %rd1, sym-4;",
                           "mov.u32 %r1, (3+4)*2;",
                           "mov.f32 %f1, .5;",
                           "mov.f32 %f1, 1.;",
                           "mov.f32 %f1, -0f3F800000;",
                           "mov.u32 %r1, 08;",
                           "mov.u32 %r1, 0b101U;",
                           "mov.u32 %r1, 1u;",
                           "mov.u32 %r1, 0xFFFFFFFFFFFFFFFFF;",
                           "bra L; { L: }",
                           "{ bra L; } L:",
                           "{L: bra L;} {L: bra L;}",
                           "L: L: bra L;",
                           ".reg .b32 %r3;",
                           "{ .reg .b32 %r3; mov.u32 %r3, 1; }",
                           ".reg .b32 y5; .reg .b32 y<6>;",
                           ".reg .b32 y6; .reg .b32 y<6>;",
                           ".reg .b32 sym; mov.u32 sym, 1;",
                           "bra NOWHERE;",
                           "bra %p1;",
                           "call nofunc;",
                           "mov.u64 %rd1, nosym;",
                           "add.s32 %r1, %r1, %r2;;",
                           "L1: ; bra L1;",
                           "@%p1 @%p1 ret;",
                           "@ %p1 ret;",
                           "add .s32 %r1, %r1, %r2;",
                           "{ .reg .b32 %r<3>; mov.u32 %r4, 1; }",
                           "mov.u32 %r1, WARP_SZ+1;",
                           "mov.u32 %r1, 1 ? 2 : 3;",
                           "ld.u32 %r1, [generic(sym)+4];",
                           "ld.global.u32 %r1, [%rd1+%rd2];",
                           "ld.global.u32 %r1, [%rd1+(4+8)];",
                           "mov.u32 %r9, 1;",
                           ".local .b32 z = 5;",
                           "a: bra a;",
                           ".reg .b32 x; x: bra x;",
                           "mov.u32 %r1, 5/0;",
                           "mov.f64 %fd1, 1e400;",
                           "L:",
                           "mov.u32 %r1, 3,;",
                           "/* open",
                           ".loc 1 1 1",
                           ".file 1 \"x\"",
                           "@@dwarf",
                           ".extern .shared .b32 q[];",
                           ".reg .b32 _;",
                           ".reg .b32 .b64 w;",
                           "mov.u32 %r1, %tid.q;",
                           "mov.u32 %r1, %laneid.x;",
                           "mov.u32 %r1, %envreg32;",
                           "mov.u32 %r1, %pm8;",
                           ".reg .v4 .b32 v; mov.u32 v.x, 1; mov.u32 %r1, v.r;",
                           "{ { { ret; } } }",
                           "mov.b64 {%r1, _}, %rd1;"})
    agree(ptx_test::kernel(text));
}

TEST_F(PtxasTest, ModuleDirectivesAreJudgedAlike) {
  for (const char* text : {";",
                           "foo",
                           ".global .b8 a[2]={1,2,3};",
                           ".global .b8 a[2][2]={{1},{2,3}};",
                           ".global .b8 a[2][2]={1,2,3,4};",
                           ".global .b8 a[2][2]={{1,2,3},{4}};",
                           ".global .b8 a[]={1,2};",
                           ".global .b8 a[];",
                           ".global .f32 f=1;",
                           ".global .f32 f=-1.5;",
                           ".global .b32 q; .global .u64 p=q+4;",
                           ".global .b32 q; .global .u64 p=q-4;",
                           ".global .b32 q; .global .u64 p=generic(q)+4;",
                           ".global .b32 q; .global .u64 p=generic(q+4);",
                           ".global .b32 q; .global .u8 p[2]={0xFF(q),0xFF00(generic(q)+4)};",
                           ".global .pred p;",
                           ".global .u32 x=1.5;",
                           ".global .s8 x=0f3F800000;",
                           ".global .b16 x=1.5;",
                           ".global .b32 a[3*2];",
                           ".global .b32 a[2]={1,};",
                           ".func f(){ret;} .func f();",
                           ".func f(); .func f(){ret;}",
                           ".entry k(){ret;} .entry k(){ret;}",
                           ".global .b32 a; .global .b32 a;",
                           ".extern .global .b32 a; .visible .global .b32 a;",
                           ".entry k{ret;}",
                           ".entry k() .maxntid 32,2,1,1 {ret;}",
                           ".entry k() .maxntid 16*2 {ret;}",
                           ".entry k() .noreturn {ret;}",
                           ".entry k(.param .b8 a[]){ret;}",
                           ".entry k(.reg .b32 a){ret;}",
                           ".visible .visible .entry k(){ret;}",
                           ".local .b32 l;",
                           ".shared .b32 s;",
                           ".section .foo { .b8 1 }",
                           ".loc 1 1 1",
                           ".visible .b32 x;",
                           ".common .shared .b32 c;",
                           ".global .b32 x={{1}};",
                           ".global .b32 .align 4 x;",
                           ".global .v2 .f32 v[2]={{1.0,2.0},{1.0,3.0}};",
                           ".global .v2 .f32 v[2]={1.0,2.0,1.0,3.0};",
                           ".global .v4 .f32 v={1.0};",
                           ".entry k(){.local .b32 l[]; ret;}",
                           ".func f(.param .b32 x[]) {ret;}",
                           ".visible .func g(); .visible .func f(){ret;} .alias g,f;",
                           ".func f(){ret;} .alias g,f;",
                           ".global .b8 s[3]=\"ab\";"})
    agree(std::string(".version 9.0\n.target sm_90\n.address_size 64\n") + text + "\n");
}

TEST_F(PtxasTest, PrintedModulesAssembleToTheSameBytes) {
  struct {
    const char* file;
    const char* options;
  } cases[] = {{"basic_75", ""},  {"basic_90", ""},      {"basic_100", ""},    {"globals_90", ""},
               {"halves_90", ""}, {"inline_asm_90", ""}, {"textures_100", ""}, {"separate_90", "-c"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.file);
    const std::string text = ptx_test::read_file(std::string(PTX_TEST_DIR) + "/" + c.file + ".ptx");
    auto module = ptx_test::parse_ok(text);
    const std::string expected = assemble(text, module->target, c.options);
    ASSERT_FALSE(expected.empty()) << ptx_test::read_file(folder_ + "/log");
    EXPECT_TRUE(assemble(print(*module), module->target, c.options) == expected)
        << ptx_test::read_file(folder_ + "/log");
  }
}

}  // namespace
