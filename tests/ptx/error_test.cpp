// What is refused, where, and with which words.
#include <gtest/gtest.h>

#include "tests/ptx/support.h"

namespace {

std::string statement(const std::string& text) { return ptx_test::error_of(ptx_test::kernel(text)); }
std::string module(const std::string& text) {
  return ptx_test::error_of(".version 9.0\n.target sm_90\n" + text);
}

TEST(PtxError, Header) {
  using ptx_test::error_of;
  EXPECT_EQ(error_of(""), "1:1: expected '.version', found end of text");
  EXPECT_EQ(error_of("// only a comment\n"), "2:1: expected '.version', found end of text");
  EXPECT_EQ(error_of("\x7f"
                     "ELF"),
            "1:1: expected '.version', found byte 0x7f");
  EXPECT_EQ(error_of(".version 9\n"), "1:10: expected a PTX version such as 9.0, found '9'");
  EXPECT_EQ(error_of(".version 9.0\n.address_size 64\n"),
            "2:1: expected '.target' after '.version', found '.address_size'");
  EXPECT_EQ(error_of(".version 9.0\n.target debug\n"), "3:1: no sm_... target after '.target'");
  EXPECT_EQ(error_of(".version 9.0\n.target sm_90\n.address_size 16\n"),
            "3:15: address size must be 32 or 64, found '16'");
}

TEST(PtxError, Module) {
  EXPECT_EQ(module("foo"), "3:1: expected a module directive such as '.entry' or '.global', found 'foo'");
  EXPECT_EQ(module(".foo"), "3:1: unknown module directive '.foo'");
  EXPECT_EQ(
      module(".visible .b32 x;"),
      "3:10: expected '.entry', '.func', '.global', '.const' or '.shared' after the linkage, found '.b32'");
  EXPECT_EQ(module(".func f() { ret; } .func f() { ret; }"), "3:26: function 'f' is defined twice");
  EXPECT_EQ(module(".global .b32 x; .global .b32 x;"), "3:30: symbol 'x' is defined twice");
  EXPECT_EQ(module(".entry k() { ret; "), "3:12: '{' of function 'k' is never closed");
  EXPECT_EQ(module(".section .debug_info { .b8 1"), "3:1: section without closing '}'");
  EXPECT_EQ(module(".entry k() .maxntid x { ret; }"), "3:21: expected an integer, found 'x'");
  EXPECT_EQ(module(".entry k(.param .b8 a[]) { ret; }"), "3:8: parameter 'a' of a kernel must have a size");
  EXPECT_EQ(module(".entry k() .foo { ret; }"), "3:12: unknown function directive '.foo'");
}

TEST(PtxError, Variables) {
  EXPECT_EQ(module(".global .align 3 .b32 x;"),
            "3:16: alignment must be a power of two up to 1048576, found '3'");
  EXPECT_EQ(module(".global x;"), "3:9: expected a type, found 'x'");
  EXPECT_EQ(module(".global .b32 5;"), "3:14: expected a variable name, found '5'");
  EXPECT_EQ(module(".global .pred p;"), "3:9: type '.pred' is for registers only");
  EXPECT_EQ(module(".global .b32 x[];"), "3:14: array 'x' needs a size or an initializer");
  EXPECT_EQ(module(".global .b32 x[] = {};"), "3:14: array 'x' needs a size or an initializer");
  EXPECT_EQ(module(".global .b32 x[2][];"), "3:18: only the first array dimension may be empty");
  EXPECT_EQ(module(".global .b32 x[1000000000000][1000000000000];"),
            "3:14: variable 'x' is larger than 64 TiB");
  EXPECT_EQ(module(".global .b32 x[2] = {1, 2, 3};"), "3:28: more initializer values than 'x' holds");
  EXPECT_EQ(module(".global .b32 x[2][2] = {{1, 2, 3}, {4}};"),
            "3:32: more initializer values than 'x' holds");
  EXPECT_EQ(module(".global .b32 x[2] = 1;"),
            "3:21: expected '{' of an array or vector initializer, found '1'");
  EXPECT_EQ(module(".global .f32 x = 1;"),
            "3:18: expected a floating literal such as 0f3F800000 or 1.0, found '1'");
  EXPECT_EQ(module(".global .f16 x = 1.0;"), "3:18: a variable of type .f16 cannot have an initializer");
  EXPECT_EQ(module(".global .u64 x = nowhere;"), "3:18: undefined symbol 'nowhere'");
  EXPECT_EQ(module(".shared .b32 x = 1;"), "3:16: only .global and .const variables can have an initializer");
  EXPECT_EQ(module(".global .b8 x[2][9999999] = {{1}, {2}};"),
            "3:35: initializer needs more than 1048576 padding zeros");
}

TEST(PtxError, Statements) {
  EXPECT_EQ(statement("mov.u32 %r1, %r2 mov.u32 %r1, 1;"),
            "7:18: expected ',' or ';' after an operand, found 'mov'");
  EXPECT_EQ(statement("mov.u32 %r9, 1;"), "7:9: register '%r9' is not declared");
  EXPECT_EQ(statement("mov.u32 %r1, %tid.q;"), "7:18: expected '.x', '.y', '.z' or '.w', found '.q'");
  EXPECT_EQ(statement("@%q bra L; L:"), "7:2: predicate register '%q' is not declared");
  EXPECT_EQ(statement("bra NOWHERE;"), "7:5: label 'NOWHERE' is not defined in function 'k'");
  EXPECT_EQ(statement("bra %r1;"), "7:5: expected a label, found '%r1'");
  EXPECT_EQ(statement("{ L: } bra L;"), "7:12: label 'L' is not defined in function 'k'");
  EXPECT_EQ(statement("L: L:"), "7:4: 'L' is declared twice in this scope");
  EXPECT_EQ(statement("call nowhere;"), "7:6: undefined symbol 'nowhere'");
  EXPECT_EQ(statement("mov.u64 %rd1, nowhere;"), "7:15: undefined symbol 'nowhere'");
  EXPECT_EQ(statement("ld.global.u32 %r1, [%rd1-4];"), "7:25: expected ',' or ']' in an address, found '-'");
  EXPECT_EQ(statement("ld.global.u32 %r1, [%rd1;"), "7:25: expected ',' or ']' in an address, found ';'");
  EXPECT_EQ(statement("mov.b64 {%r1, %r2, %rd1;"), "7:24: expected ',' or '}', found ';'");
  EXPECT_EQ(statement("mov.u32 %r1, 5 / 0;"), "7:16: division by zero in a constant expression");
  EXPECT_EQ(statement("mov.u32 %r1, 0x;"),
            "7:14: expected an operand, found malformed or too large number '0x'");
  EXPECT_EQ(statement("mov.u32 %r1, ;"), "7:14: expected an operand, found ';'");
  EXPECT_EQ(statement("Foo %r1;"), "7:1: expected an instruction or a label, found 'Foo'");
  EXPECT_EQ(statement(".reg .b32 x, x;"), "7:14: 'x' is declared twice in this scope");
  EXPECT_EQ(statement(".reg .b32 x5, x<6>;"), "7:15: 'x' is declared twice in this scope");
  EXPECT_EQ(statement(".reg .b32 %q<99999999>;"), "7:14: register range larger than 16777216: '99999999'");
  EXPECT_EQ(statement(".reg .b32 x[3];"), "7:12: a register cannot be an array");
  EXPECT_EQ(statement(".foo"), "7:1: unknown directive '.foo' in a function body");
  EXPECT_EQ(statement("/* open"),
            "7:1: expected an instruction, label or directive, found comment without end");
  EXPECT_EQ(statement("call (L), sym; L:"), "7:7: label 'L' cannot be used here");
  EXPECT_EQ(statement("t: .branchtargets L, M; L:"), "7:22: label 'M' is not defined in function 'k'");
}

TEST(PtxError, Limits) {
  std::string deep(300, '{');
  EXPECT_EQ(statement(deep), "7:256: scopes nested deeper than 256");
  EXPECT_EQ(statement("mov.u32 %r1, " + std::string(100, '(') + "1;"),
            "7:79: constant expression nested deeper than 64");
  EXPECT_EQ(statement("mov.u32 %r1, " + std::string(100, '~') + "1;"),
            "7:79: constant expression nested deeper than 64");
  EXPECT_EQ(statement("mov.b64 " + std::string(100, '{') + "%r1;"), "7:14: operands nested deeper than 4");
  std::string modifiers;
  for (int i = 0; i < 65; ++i) modifiers += ".x";
  EXPECT_EQ(statement("add" + modifiers + ";"), "7:132: more than 64 modifiers");
}

}  // namespace
