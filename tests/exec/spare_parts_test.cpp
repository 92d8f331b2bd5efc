// A launch built from what an earlier one left behind must not be able to tell.
#include "tests/exec/fixture.h"

namespace simgpu::exec::test {
namespace {

std::string entry(const std::string& body) {
  return ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u32 p1) "
         "{\n"
         ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .shared .align 4 .b8 s[256];\n" +
         body + "\nret;\n}\n";
}
// Half of the lanes leave early, the rest meet at a barrier and write parameter and shared memory (zero at
// the start).
const char* const kBody =
    "ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [p1]; mov.u32 %r2, %tid.x;\n"
    "mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r4, s; mad.lo.u32 %r4, %r2, 4, %r4;\n"
    "and.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra out;\n"
    "ld.shared.u32 %r5, [%r4]; add.u32 %r5, %r5, %r1; st.shared.u32 [%r4], %r5; bar.sync 0;\n"
    "st.global.u32 [%rd1], %r5;\nout:";

std::vector<uint32_t> expected(uint32_t value, uint32_t threads) {
  std::vector<uint32_t> v(64, 0);
  for (uint32_t t = 1; t < threads; t += 2) v[t] = value;
  return v;
}

TEST(SpareParts, EveryLaunchIsLikeTheFirst) {
  Device d;
  ASSERT_TRUE(d.load(entry(kBody)));
  Result first;
  for (uint32_t k = 0; k < 20; ++k) {
    const uint32_t threads = k % 3 ? 64 : 40;  // other shapes in between
    const uint64_t p = d.memory.upload(std::vector<uint32_t>(64, 0));
    const Result r = d.ok("k", {1}, {threads}, args(p, 7 + k));
    EXPECT_EQ(d.memory.download<uint32_t>(p, 64), expected(7 + k, threads)) << k;
    if (k == 1) first = r;
    if (k % 3 == 0 || k < 2) continue;
    EXPECT_EQ(r.stats.thread_instructions, first.stats.thread_instructions)
        << "counters of an earlier launch";
    EXPECT_EQ(r.stats.bytes_written, first.stats.bytes_written);
  }
}

TEST(SpareParts, RecordedAccessesAreOfThisLaunch) {
  Device d;
  ASSERT_TRUE(d.load(entry(kBody)));
  d.launch.record_accesses = true;
  const uint64_t p = d.memory.allocate(256), q = d.memory.allocate(256);
  d.ok("k", {1}, {64}, args(p, 1u));
  for (const Access& a : d.ok("k", {1}, {64}, args(q, 1u)).accesses)
    EXPECT_GE(a.base, q) << "of the launch before";
}

TEST(SpareParts, NothingOfAFaultedLaunchIsUsed) {
  Device d;
  ASSERT_TRUE(d.load(entry(kBody)));
  const uint64_t p = d.memory.upload(std::vector<uint32_t>(64, 0));
  for (int k = 0; k < 3; ++k) {
    const Result bad = d.run("k", {1}, {64}, args(uint64_t{64}, 1u));
    EXPECT_EQ(static_cast<int>(bad.fault.fault), static_cast<int>(Fault::illegal_address));
    d.ok("k", {1}, {64}, args(p, 9u));
    EXPECT_EQ(d.memory.download<uint32_t>(p, 64), expected(9, 64));
  }
}

// Programs come and go at the same addresses with other layouts.
TEST(SpareParts, AnotherProgramIsNotTakenForTheLast) {
  for (uint32_t k = 0; k < 12; ++k) {
    Device d;
    std::string more = kBody;
    if (k % 2) {  // many registers alive at once; their sum comes to nothing
      std::string set = ".reg .b64 %w<300>;\n", use = "mov.u64 %w0, 0;\n";
      for (int w = 1; w < 300; ++w) {
        const std::string name = "%w" + std::to_string(w);
        set += "cvt.u64.u32 " + name + ", %tid.x;\n";
        use += "sub.u64 " + name + ", " + name + ", %w" + std::to_string(w % 299 + 1) + ";\n";
      }
      more = set + use + more;
    }
    ASSERT_TRUE(d.load(entry(more)));
    const uint64_t p = d.memory.upload(std::vector<uint32_t>(64, 0));
    d.ok("k", {1}, {64}, args(p, k + 1));
    EXPECT_EQ(d.memory.download<uint32_t>(p, 64), expected(k + 1, 64));
  }
}

}  // namespace
}  // namespace simgpu::exec::test
