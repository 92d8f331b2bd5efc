#include "runtime/ptx/lexer.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

using shunt::ptx::Lexer;
using shunt::ptx::Token;
using Kind = Token::Kind;

Token only(const char* text) {
  Lexer lexer(text);
  const Token token = lexer.next();
  EXPECT_EQ(lexer.next().kind, Kind::end) << text;
  return token;
}
double real(const char* text) {
  const Token token = only(text);
  EXPECT_EQ(token.kind, Kind::real) << text;
  double value;
  std::memcpy(&value, &token.bits, 8);
  return value;
}

TEST(PtxLexer, Integers) {
  struct {
    const char* text;
    uint64_t value;
  } cases[] = {{"0", 0},
               {"7", 7},
               {"42U", 42},
               {"0x10", 16},
               {"0XfFU", 255},
               {"017", 15},
               {"0b101", 5},
               {"0B11U", 3},
               {"00", 0},
               {"18446744073709551615", UINT64_MAX},
               {"0xFFFFFFFFFFFFFFFF", UINT64_MAX}};
  for (const auto& c : cases) {
    const Token token = only(c.text);
    EXPECT_EQ(token.kind, Kind::integer) << c.text;
    EXPECT_EQ(token.bits, c.value) << c.text;
  }
  for (const char* bad :
       {"18446744073709551616", "0x1FFFFFFFFFFFFFFFF", "0x", "08", "0b2", "12ab", "1u", "0b"})
    EXPECT_EQ(only(bad).kind, Kind::invalid) << bad;
}

TEST(PtxLexer, FloatingLiterals) {
  EXPECT_EQ(real("1.5"), 1.5);
  EXPECT_EQ(real("1."), 1.0);
  EXPECT_EQ(real(".5"), 0.5);
  EXPECT_EQ(real(".25e2"), 25.0);
  EXPECT_EQ(real("1e3"), 1000.0);
  EXPECT_EQ(real("2.5E-1"), 0.25);
  EXPECT_EQ(only("0f3F800000").kind, Kind::f32);
  EXPECT_EQ(only("0f3F800000").bits, 0x3f800000u);
  EXPECT_EQ(only("0F7fc00000").bits, 0x7fc00000u);
  EXPECT_EQ(only("0d400921FB54442D18").kind, Kind::f64);
  EXPECT_EQ(only("0d400921FB54442D18").bits, 0x400921fb54442d18u);
  for (const char* bad : {"0f3F80000", "0f3F8000000", "0fGF800000", "0d3F800000", "1e400"})
    EXPECT_EQ(only(bad).kind, Kind::invalid) << bad;
}

TEST(PtxLexer, WordsAndModifiers) {
  EXPECT_EQ(only("%r12").text, "%r12");
  EXPECT_EQ(only("$L__BB0_1").text, "$L__BB0_1");
  EXPECT_EQ(only("_Z3fooPf").text, "_Z3fooPf");
  EXPECT_EQ(only(".shared::cta").text, "shared::cta");
  EXPECT_EQ(only(".mbarrier::complete_tx::bytes").text, "mbarrier::complete_tx::bytes");
  EXPECT_EQ(only(".L2::128B").text, "L2::128B");
  EXPECT_EQ(only(".2d").text, "2d");
  EXPECT_EQ(only(".16x64b").text, "16x64b");
  EXPECT_EQ(only(".m16n8k16").kind, Kind::dot_word);
}

TEST(PtxLexer, BlanksCommentsAndContinuation) {
  Lexer lexer("// a\n/* b\nc */ x \\\n y\r\n\tz");
  Token token = lexer.next();
  EXPECT_EQ(token.text, "x");
  EXPECT_EQ(token.line, 3u);
  EXPECT_EQ(lexer.column(token), 6u);
  token = lexer.next();
  EXPECT_EQ(token.text, "y");
  EXPECT_EQ(token.line, 4u);
  token = lexer.next();
  EXPECT_EQ(token.text, "z");
  EXPECT_EQ(token.line, 5u);
  EXPECT_EQ(lexer.column(token), 2u);
  EXPECT_EQ(lexer.next().kind, Kind::end);
}

TEST(PtxLexer, EndsAtNul) {
  const char text[] = "a\0b";
  Lexer lexer(std::string_view(text, 3));
  EXPECT_EQ(lexer.next().text, "a");
  EXPECT_EQ(lexer.next().kind, Kind::end);
  Lexer empty(std::string_view{});
  EXPECT_EQ(empty.next().kind, Kind::end);
}

TEST(PtxLexer, InvalidBytes) {
  for (int byte = 1; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    Lexer lexer(std::string_view(&c, 1));
    while (lexer.next().kind != Kind::end) {
    }
  }
  EXPECT_EQ(describe(only("\x01")), "byte 0x01");
  EXPECT_EQ(describe(only("/* never")), "comment without end");
  EXPECT_EQ(describe(only("\"never")), "string without end");
  EXPECT_EQ(only("\"a b\"").text, "a b");
}

}  // namespace
