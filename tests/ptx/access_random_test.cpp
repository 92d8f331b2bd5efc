// Random kernels: straight code, branches and loops over 32-bit and 64-bit integers that wrap, widen, shift
// and compare, ending in stores whose index is whatever came out. Each is run and must stay inside its
// prediction; the allocation is 16 GiB of unreserved address space around the pointer, so that every 32-bit
// index is legal.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/ptx/access_run.h"
#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  std::string kernel() {
    text_ =
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; ld.param.u32 %r3, [n]; "
        "ld.param.u32 %r4, [m]; "
        "mad.lo.s32 %r5, %r1, %r2, %r0; mov.u32 %r6, %laneid; mov.u32 %r7, 5;\n";
    block(0);
    store();
    return ".version 9.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a, .param .u32 n, .param "
           ".u32 m) {\n.reg .pred %p<64>; .reg .b32 "
           "%r<8>; .reg .b32 %c<64>; .reg .b64 %rd<8>; .reg .b64 %a;\nld.param.u64 %a, [a];\n" +
           text_ + "ret;\n}\n";
  }

 private:
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_()) % n; }
  std::string reg() { return "%r" + std::to_string(pick(8)); }
  std::string source() {
    switch (pick(4)) {
      case 0:
        return std::to_string(static_cast<int>(pick(40)) - 8);
      case 1:
        return pick(3) == 0 ? std::to_string(1u << pick(31)) : reg();
      default:
        return reg();
    }
  }
  std::string condition(const std::string& predicate) {
    static const char* const kCompare[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    const char* type = pick(2) ? "s32" : "u32";
    std::string text = std::string("setp.") + kCompare[pick(6)] + "." + type + " " + predicate + ", " +
                       reg() + ", " + source() + "; ";
    if (pick(4) == 0)
      text += std::string("setp.") + kCompare[pick(6)] + (pick(2) ? ".and." : ".or.") + type + " " +
              predicate + ", " + reg() + ", " + source() + ", " + (pick(2) ? "" : "!") + predicate + "; ";
    return text;
  }
  void operation() {
    const std::string d = reg(), a = reg(), b = source();
    const std::string guard = pick(8) == 0 ? condition("%p0") + "@%p0 " : "";
    text_ += guard;
    switch (pick(17)) {
      case 0:
      case 1:
      case 2:
        text_ += "add.s32 " + d + ", " + a + ", " + b;
        break;
      case 3:
        text_ += "sub.s32 " + d + ", " + a + ", " + b;
        break;
      case 4:
        text_ += "mul.lo.s32 " + d + ", " + a + ", " + b;
        break;
      case 5:
        text_ += "mad.lo.s32 " + d + ", " + a + ", " + b + ", " + reg();
        break;
      case 6:
        text_ += "shl.b32 " + d + ", " + a + ", " + std::to_string(pick(6));
        break;
      case 7:
        text_ += std::string("shr.") + (pick(2) ? "s32 " : "u32 ") + d + ", " + a + ", " +
                 std::to_string(pick(34));
        break;
      case 8:
        text_ +=
            "and.b32 " + d + ", " + a + ", " + (pick(2) ? std::to_string((1u << (1 + pick(10))) - 1) : b);
        break;
      case 9:
        text_ += std::string(pick(2) ? "or" : "xor") + ".b32 " + d + ", " + a + ", " + b;
        break;
      case 10:
        text_ +=
            std::string(pick(2) ? "min" : "max") + (pick(2) ? ".s32 " : ".u32 ") + d + ", " + a + ", " + b;
        break;
      case 11:
        text_ += std::string(pick(2) ? "rem" : "div") + (pick(2) ? ".s32 " : ".u32 ") + d + ", " + a + ", " +
                 (pick(3) ? std::to_string(1 + pick(30)) : "%r2");
        break;
      case 12:
        text_ += condition("%p1") + "selp.b32 " + d + ", " + a + ", " + b + ", %p1";
        break;
      case 13:
        text_ += "mul.hi." + std::string(pick(2) ? "s32 " : "u32 ") + d + ", " + a + ", " + b;
        break;
      case 14:
        text_ += "neg.s32 " + d + ", " + a;
        break;
      case 15:
        text_ +=
            "bfe.u32 " + d + ", " + a + ", " + std::to_string(pick(20)) + ", " + std::to_string(1 + pick(12));
        break;
      default: {
        static const char* const kConversions[] = {"s32.s8 ", "u32.u16 ", "s32.s16 ", "u32.u8 ",
                                                   "u8.u32 ", "s8.s32 ",  "u16.u32 ", "s16.s32 "};
        text_ += std::string("cvt.") + kConversions[pick(8)] + d + ", " + a;
        break;
      }
    }
    text_ += ";\n";
  }
  void store() {
    const char* sign = pick(2) ? "s32" : "u32";
    switch (pick(3)) {
      case 0:
        text_ += std::string("cvt.") + (sign[0] == 's' ? "s64." : "u64.") + sign + " %rd1, " + reg() +
                 "; add.s64 %rd2, %a, %rd1; ";
        break;
      case 1:
        text_ += std::string("mul.wide.") + sign + " %rd1, " + reg() + ", " + std::to_string(1 + pick(2)) +
                 "; add.s64 %rd2, %rd1, %a; ";
        break;
      default:
        text_ += std::string("mad.wide.") + sign + " %rd2, " + reg() + ", 1, %a; ";
    }
    if (pick(4) == 0) text_ += condition("%p2") + "@%p2 ";
    text_ += "st.global.u8 [%rd2+" + std::to_string(static_cast<int>(pick(32)) - 8) + "], 1;\n";
  }
  void block(int depth) {
    const uint32_t count = 2 + pick(5);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t kind = depth < 3 ? pick(10) : 9;
      const std::string id = std::to_string(labels_);
      if (kind == 0) {  // branch over a block
        ++labels_;
        const std::string p = "%p" + std::to_string(3 + labels_ % 60);
        text_ += condition(p) + "@" + (pick(2) ? "!" : "") + p + " bra L" + id + ";\n";
        block(depth + 1);
        text_ += "L" + id + ":\n";
      } else if (kind == 1 &&
                 loops_ < 4) {  // a loop that ends by its own counter and perhaps by a condition as well
        ++labels_;
        ++loops_;
        const std::string c = "%c" + std::to_string(loops_), p = "%p" + std::to_string(3 + labels_ % 60);
        text_ += "mov.u32 " + c + ", 0;\nL" + id + ": add.s32 " + c + ", " + c + ", 1; setp.gt.u32 " + p +
                 ", " + c + ", " + std::to_string(1 + pick(6)) + "; @" + p + " bra E" + id + ";\n";
        const bool top = pick(2) == 0;
        if (top) text_ += condition(p) + "@" + p + " bra E" + id + ";\n";
        block(depth + 1);
        if (pick(2)) store();
        if (top)
          text_ += "bra L" + id + ";\n";
        else
          text_ += condition(p) + "@" + p + " bra L" + id + ";\n";
        text_ += "E" + id + ":\n";
      } else if (kind == 2) {
        store();
      } else if (kind == 3 && loops_ < 4) {  // counts down to 0 exactly, with a register that moves along
        ++labels_;
        ++loops_;
        const std::string c = "%c" + std::to_string(loops_), p = "%p" + std::to_string(3 + labels_ % 60),
                          moved = reg();
        const int step = 1 << pick(3);
        text_ += "and.b32 " + c + ", " + reg() + ", 3; ";
        if (pick(2))
          text_ += "add.s32 " + c + ", " + c + ", 1; ";
        else
          text_ += "setp.eq.s32 " + p + ", " + c + ", 0; @" + p + " bra E" + id + "; ";
        text_ += "shl.b32 " + c + ", " + c + ", " + std::to_string(__builtin_ctz(step)) + ";\nL" + id + ":\n";
        if (pick(2)) operation();
        store();
        text_ += "add.s32 " + moved + ", " + moved + ", " +
                 (pick(2) ? reg() : std::to_string(static_cast<int>(pick(40)) - 20)) + "; ";
        if (pick(2)) store();
        text_ += "add.s32 " + c + ", " + c + ", -" + std::to_string(step) + "; setp.ne.s32 " + p + ", " + c +
                 ", 0; @" + p + " bra L" + id + ";\nE" + id + ":\n";
        if (pick(2)) store();
      } else {
        operation();
      }
    }
  }

  std::mt19937 random_;
  std::string text_;
  uint32_t labels_ = 0, loops_ = 0;
};

TEST(AccessRandom, ObservedIsInsidePredicted) {
  ptx_test::Arena arena;
  constexpr uint64_t kHalf = uint64_t{9} << 30;
  const uint64_t pointer = arena.allocate(2 * kHalf) + kHalf;
  size_t bounded = 0, runs = 0, tight = 0;
  // SHUNT_RANDOM_KERNELS=<first>,<count> runs others.
  uint32_t first = 0, count = 1500;
  if (const char* text = std::getenv("SHUNT_RANDOM_KERNELS")) std::sscanf(text, "%u,%u", &first, &count);
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const std::string text = Generator(seed).kernel();
    auto module = ptx_test::parse_ok(text);
    const KernelAccess access = analyse_access(*module, *ptx_test::find(*module, "k"));
    ASSERT_FALSE(access.unknown) << access.reason << "\n" << text;
    std::mt19937 engine(seed);
    auto random = [&] { return static_cast<uint32_t>(engine()); };
    for (int round = 0; round < 2; ++round) {
      const LaunchShape shape{{1 + random() % 3, 1, 1}, {1 + random() % 40, 1, 1}};
      std::vector<uint8_t> parameters(access.parameter_bytes + 8);
      const uint32_t n = random() % 3 == 0 ? random() : random() % 100,
                     m = random() % 4 == 0 ? 0u - random() % 50 : random() % 40;
      std::memcpy(parameters.data(), &pointer, 8);
      std::memcpy(parameters.data() + 8, &n, 4);
      std::memcpy(parameters.data() + 12, &m, 4);
      const auto result = ptx_test::run_and_compare(*module, access, arena, shape, parameters);
      ASSERT_TRUE(result.ran) << result.error << "\n" << text;
      ASSERT_EQ(result.error, "") << "seed " << seed << " grid " << shape.grid[0] << " block "
                                  << shape.block[0] << " n " << n << " m " << m << "\n"
                                  << text << format_accesses(access, *ptx_test::find(*module, "k"));
      ++runs;
      bounded += result.bounded;
      tight += result.bounded && result.predicted < 4096 + 64 * result.touched;
    }
  }
  std::printf("%zu runs, %zu with bounds, %zu of those tight\n", runs, bounded, tight);
  EXPECT_GT(bounded * 4, runs) << "the prediction must say something for the test to mean something";
  EXPECT_GT(tight * 20, runs);
}

}  // namespace
