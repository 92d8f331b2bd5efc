// Deterministic mutations of the seeds and of compiled files: nothing may crash, every refusal has a place
// and words, and what still parses also survives printing. The libFuzzer targets in tests/fuzz do the same
// without end.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "runtime/ptx/access_analysis.h"
#include "runtime/ptx/print.h"
#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;

const char* const kTokens[] = {"{",
                               "}",
                               "(",
                               ")",
                               "[",
                               "]",
                               ",",
                               ";",
                               ":",
                               "@",
                               "!",
                               "|",
                               "-",
                               "+",
                               ".",
                               "\"",
                               "/*",
                               "//",
                               "0x",
                               "0f",
                               "1e9",
                               "99999999999999999999",
                               "%r1",
                               "%p<9999999>",
                               ".reg .b32 x;",
                               ".global .b8 z[99999999999];",
                               "= {",
                               "{{{{{{{{",
                               "((((((((((((",
                               ".section .x {",
                               ".entry k(",
                               ".func (",
                               "generic(",
                               "0xFF(",
                               "WARP_SZ",
                               "\x01",
                               "\xff",
                               "\n",
                               ".branchtargets",
                               ".callprototype",
                               "L:",
                               "_",
                               ".align",
                               ".v4",
                               ".ptr",
                               "?",
                               "<<"};

std::string mutate(const std::string& seed, std::mt19937& random) {
  std::string text = seed;
  auto at = [&] { return text.empty() ? 0 : random() % text.size(); };
  const int edits = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < edits; ++i) {
    switch (random() % 8) {
      case 0:
        if (!text.empty()) text[at()] = static_cast<char>(random());
        break;
      case 1:
        text.insert(at(), kTokens[random() % std::size(kTokens)]);
        break;
      case 2:
        text.erase(at(), 1 + random() % 40);
        break;
      case 3:
        text.insert(at(), text.substr(at(), 1 + random() % 80));
        break;
      case 4:
        text.resize(at());
        break;
      case 5:
      case 6: {  // a small change of a number or a name is often still a program
        const size_t digit = text.find_first_of("0123456789", at());
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random() % 10);
        break;
      }
      default: {
        const size_t from = at();
        const char* token = kTokens[random() % std::size(kTokens)];
        text.replace(from, std::min<size_t>(random() % 8, text.size() - from), token);
      }
    }
  }
  return text;
}

TEST(PtxMutation, NothingCrashesAndErrorsHaveAPlace) {
  std::vector<std::string> seeds;
  for (const std::string& file : ptx_test::files_in(PTX_SEED_DIR, ".ptx"))
    seeds.push_back(ptx_test::read_file(file));
  const size_t own = seeds.size();
  ASSERT_GE(own, 8u);
  for (const char* name : {"basic_90", "globals_90", "inline_asm_90", "textures_90", "access_90"})
    seeds.push_back(ptx_test::read_file(std::string(PTX_TEST_DIR) + "/" + name + ".ptx"));
  std::mt19937 random(20261201);
  size_t parsed = 0, refused = 0, analysed = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 40000; ++i) {
    const std::string text = mutate(seeds[static_cast<size_t>(i) % seeds.size()], random);
    Diagnostic d;
    auto module = parse(text, d);
    if (!module) {
      ++refused;
      ASSERT_FALSE(d.message.empty());
      ASSERT_GE(d.line, 1u);
      ASSERT_GE(d.column, 1u);
      continue;
    }
    ++parsed;
    ASSERT_EQ(d.message, "");
    const std::string printed = print(*module);
    Diagnostic again;
    auto second = parse(printed, again);
    ASSERT_TRUE(second != nullptr) << again.line << ":" << again.column << ": " << again.message << "\n"
                                   << printed;
    ASSERT_EQ(ptx_test::difference(*module, *second), "") << printed;
    for (const KernelAccess& access : analyse_accesses(*module)) {
      ASSERT_EQ(access.unknown, !access.reason.empty());
      std::vector<uint8_t> parameters(access.parameter_bytes + 8, 0x11);
      std::vector<AccessRange> ranges;
      ASSERT_NE(access.evaluate({{3, 2, 1}, {32, 2, 1}}, parameters.data(), ranges), access.unknown);
      analysed += !access.unknown;
    }
  }
  // Both outcomes must be common, or the mutations test nothing.
  EXPECT_GT(parsed, 2000u);
  EXPECT_GT(analysed, 1000u);
  EXPECT_GT(refused, 10000u);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60.0);
}

}  // namespace
