// The access analysis on kernels whose patterns are known: mode of each parameter and exact ranges for given
// launches.
#include "runtime/ptx/access_analysis.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <tuple>

#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;

const char* const kArchitectures[] = {"access_75", "access_90", "access_100"};

struct Kernel {
  std::unique_ptr<Module> module;
  KernelAccess access;
};
Kernel analyse(const std::string& file, const std::string& name) {
  Kernel k;
  k.module = ptx_test::parse_ok(ptx_test::read_file(std::string(PTX_TEST_DIR) + "/" + file + ".ptx"));
  k.access = analyse_access(*k.module, *ptx_test::find(*k.module, std::to_string(name.size()) + name));
  return k;
}
std::string modes(const KernelAccess& access) {  // "r w rw -"
  if (access.unknown) return "unknown";
  std::string result;
  for (const ParameterAccess& p : access.parameters) {
    if (!result.empty()) result += ' ';
    result += p.mode == AccessMode::unused    ? "-"
              : p.mode == AccessMode::read    ? "r"
              : p.mode == AccessMode::written ? "w"
                                              : "rw";
    if (p.mode != AccessMode::unused && !p.affine) result += '*';
  }
  return result;
}

// Parameters by value in order, 8 bytes for pointers and long long, 4 for the rest.
class Values {
 public:
  explicit Values(const KernelAccess& access) : access_(access), bytes_(access.parameter_bytes + 8) {}
  Values& operator()(uint64_t value) {
    const auto& place = access_.layout[next_++];
    std::memcpy(bytes_.data() + place.offset, &value, std::min<size_t>(place.size, 8));
    return *this;
  }
  const uint8_t* data() const { return bytes_.data(); }

 private:
  const KernelAccess& access_;
  std::vector<uint8_t> bytes_;
  size_t next_ = 0;
};
// "1000-1400:r 2000-2400:w", whole allocations as "1000*:r"; sorted by address.
std::string ranges(const KernelAccess& access, const LaunchShape& shape, const Values& values) {
  std::vector<AccessRange> out;
  if (!access.evaluate(shape, values.data(), out)) return "unknown";
  // Overlapping ranges of one mode are one.
  std::sort(out.begin(), out.end(), [](const AccessRange& a, const AccessRange& b) {
    return std::tie(a.mode, a.whole, a.begin) < std::tie(b.mode, b.whole, b.begin);
  });
  std::vector<AccessRange> merged;
  for (const AccessRange& r : out) {
    if (!merged.empty() && !r.whole && !merged.back().whole && merged.back().mode == r.mode &&
        r.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, r.end);
    else
      merged.push_back(r);
  }
  std::vector<std::pair<uint64_t, std::string>> texts;
  for (const AccessRange& r : merged) {
    std::string text = std::to_string(r.begin) + (r.whole ? "*" : "-" + std::to_string(r.end)) + ":";
    text += r.mode == AccessMode::read ? "r" : r.mode == AccessMode::written ? "w" : "rw";
    texts.push_back({r.begin, text});
  }
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::string result;
  for (const auto& [begin, text] : texts) result += (result.empty() ? "" : " ") + text;
  return result;
}

struct Expected {
  const char* name;
  const char* modes;
};

TEST(Access, Modes) {
  const Expected cases[] = {
      {"copy_guarded", "r w -"},   {"copy_unguarded", "r w"},  {"copy_unsigned", "r w -"},
      {"copy_long", "r w -"},      {"copy_reversed", "r w -"}, {"grid_stride", "r w -"},
      {"row_copy", "r w - - -"},   {"stencil", "r w -"},       {"select_pointer", "r r w -"},
      {"struct_fixed", "rw -"},    {"gather", "unknown"},      {"pointer_chase", "unknown"},
      {"histogram", "r - rw"},     {"warp_sums", "r w"},       {"clamped", "r w -"},
      {"vectors", "r w -"},        {"only_scalars", "- -"},    {"spin", "unknown"},
      {"fence_system", "unknown"}, {"fence_device", "w w"},    {"wrapping_signed", "w -"}};
  for (const char* file : kArchitectures) {
    for (const Expected& e : cases)
      EXPECT_EQ(modes(analyse(file, e.name).access), e.modes) << file << " " << e.name;
  }
}

TEST(Access, ModesWithoutBoundsMayDifferByCompiler) {
  for (const char* file : kArchitectures) {
    for (const char* name : {"matmul", "matmul_tiled"}) {
      const KernelAccess access = analyse(file, name).access;
      ASSERT_FALSE(access.unknown) << access.reason;
      EXPECT_EQ(access.parameters[0].mode, AccessMode::read);
      EXPECT_EQ(access.parameters[1].mode, AccessMode::read);
      EXPECT_EQ(access.parameters[2].mode, AccessMode::written);
      EXPECT_TRUE(access.parameters[2].affine) << name;
    }
  }
}

TEST(Access, Reasons) {
  const std::pair<const char*, const char*> cases[] = {
      {"gather", "address depends on a value read from memory"},
      {"pointer_chase", "address depends on a value read from memory"},
      {"spin", "volatile or synchronising load: the kernel may wait for another one"},
      {"fence_system", "system-wide fence"}};
  for (const auto& [name, reason] : cases) {
    const KernelAccess access = analyse("access_90", name).access;
    EXPECT_NE(access.reason.find(reason), std::string::npos) << name << ": " << access.reason;
    EXPECT_EQ(access.reason.compare(0, 5, "line "), 0) << access.reason;
    EXPECT_FALSE(access.proven());
  }
}

TEST(Access, ExactRanges) {
  for (const char* file : kArchitectures) {
    SCOPED_TRACE(file);
    const LaunchShape shape{{4, 1, 1}, {64, 1, 1}};
    Kernel k = analyse(file, "copy_guarded");
    // The guard cuts the last block: 200 of 256 threads.
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(200)), "10000-10800:r 20000-20800:w");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(1000)), "10000-11024:r 20000-21024:w");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(0)), "");
    k = analyse(file, "copy_unguarded");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)), "10000-12048:r 20000-22048:w");
    k = analyse(file, "copy_unsigned");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(200)), "10000-10200:r 20000-20200:w");
    k = analyse(file, "copy_long");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(100)), "10000-10200:r 20000-20200:w");
    k = analyse(file, "copy_reversed");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(200)), "10000-10800:r 20000-20800:w");
    k = analyse(file, "grid_stride");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(1000)), "10000-14000:r 20000-24000:w");
    k = analyse(file, "stencil");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(200)), "10000-10800:r 20004-20796:w");
    k = analyse(file, "row_copy");
    EXPECT_EQ(ranges(k.access, {{2, 2, 1}, {32, 8, 1}}, Values(k.access)(100000)(200000)(50)(10)(64)),
              "100000-102000:r 200000-202504:w");
    k = analyse(file, "vectors");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(20000)(100)), "11600-13200:r 20000-21600:w");
    k = analyse(file, "select_pointer");
    EXPECT_EQ(ranges(k.access, {{1, 1, 1}, {32, 1, 1}}, Values(k.access)(10000)(20000)(30000)(1)),
              "10000-10128:r 20000-20128:r 30000-30128:w");
    k = analyse(file, "histogram");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(200)(20000)), "10000-10200:r 20000-20064:rw");
    k = analyse(file, "warp_sums");
    EXPECT_EQ(ranges(k.access, {{3, 1, 1}, {128, 1, 1}}, Values(k.access)(10000)(20000)),
              "10000-11536:r 20000-20048:w");
  }
}

TEST(Access, ArithmeticThatWrapsHasNoBounds) {
  for (const char* file : kArchitectures) {
    SCOPED_TRACE(file);
    const LaunchShape shape{{1, 1, 1}, {256, 1, 1}};
    Kernel k = analyse(file, "wrapping_signed");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(2)), "11000-11511:w");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(100000)(static_cast<uint32_t>(-3))),
              "100235-101001:w");
    // 255 * 2^24 leaves 32 bits: nothing but the allocation is certain.
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(1 << 24)), "10000*:w");
    k = analyse(file, "wrapping");  // shifted down and masked: small whatever wraps
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(4096)), "10000-11024:w");
    EXPECT_EQ(ranges(k.access, shape, Values(k.access)(10000)(0xffffffff)).find("10000-11024:w") !=
                  std::string::npos,
              true);
  }
}

TEST(Access, StructsOfPointers) {
  for (const char* file : kArchitectures) {
    SCOPED_TRACE(file);
    Kernel k = analyse(file, "struct_fixed");
    ASSERT_FALSE(k.access.unknown) << k.access.reason;
    std::vector<uint32_t> pointers = k.access.parameters[0].pointers;
    std::sort(pointers.begin(), pointers.end());
    EXPECT_EQ(pointers, (std::vector<uint32_t>{8, 16}));
    std::vector<uint8_t> values(k.access.parameter_bytes);
    const uint64_t data[4] = {1000, 2000, 3000, 4000};
    std::memcpy(values.data(), data, sizeof data);
    std::vector<AccessRange> out;
    ASSERT_TRUE(k.access.evaluate({{1, 1, 1}, {32, 1, 1}}, values.data(), out));
    ASSERT_EQ(out.size(), 2u);
    for (const AccessRange& r : out) {
      EXPECT_EQ(r.begin, r.mode == AccessMode::written ? 2000u : 3000u);
      EXPECT_EQ(r.end - r.begin, 128u);
    }
    k = analyse(file, "struct_indexed");
    ASSERT_FALSE(k.access.unknown) << k.access.reason;
    EXPECT_EQ(k.access.parameters[0].mode, AccessMode::written);
    EXPECT_GE(k.access.parameters[0].pointers.size(), 4u) << "any of its words may be the pointer";
  }
}

TEST(Access, PointersThroughLocalMemory) {
  for (const char* file : kArchitectures) {
    SCOPED_TRACE(file);
    const Kernel k = analyse(file, "local_pointers");
    ASSERT_FALSE(k.access.unknown) << k.access.reason;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(k.access.parameters[i].mode, AccessMode::written);
    EXPECT_EQ(k.access.parameters[3].mode, AccessMode::unused);
  }
}

TEST(Access, ModuleVariables) {
  const Kernel k = analyse("access_90", "variables");
  ASSERT_FALSE(k.access.unknown) << k.access.reason;
  EXPECT_FALSE(k.access.proven());
  ASSERT_EQ(k.access.variables.size(), 2u);
  for (const VariableAccess& v : k.access.variables)
    EXPECT_EQ(v.mode, v.name == "counter" ? AccessMode::read_written : AccessMode::read) << v.name;
}

// Shapes that nvcc does not emit, and every rule that makes a kernel unknown.
std::string modes_of(const std::string& body) {
  auto module = ptx_test::parse_ok(
      ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 8 .u64 pointer;\n"
      ".extern .func f();\n"
      ".entry k(.param .u64 a, .param .u64 b, .param .u32 n) {\n.reg .pred %p<9>; .reg .b32 %r<20>; .reg "
      ".b64 %rd<20>; .reg .b16 %rs<4>;"
      ".shared .b32 s[64]; .local .align 8 .b8 l[64];\nld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; "
      "ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n" +
      body + "\nret; }");
  return modes(analyse_access(*module, *ptx_test::find(*module, "k")));
}

TEST(Access, HandWritten) {
  EXPECT_EQ(modes_of("st.global.u32 [%rd1], 1;"), "w - -");
  EXPECT_EQ(modes_of("st.u32 [%rd1], 1;"), "w - -") << "generic";
  EXPECT_EQ(modes_of("@%p1 st.global.u32 [%rd1], 1;"), "w - -");
  EXPECT_EQ(modes_of("ld.global.u64 %rd3, [%rd1]; st.global.u32 [%rd3], 1;"), "unknown");
  EXPECT_EQ(modes_of("ld.global.u64 %rd3, [%rd1]; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], 1;"),
            "unknown");
  EXPECT_EQ(modes_of("ld.global.u32 %r3, [%rd1]; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd2, %rd3; "
                     "st.global.u32 [%rd4], 1;"),
            "unknown");
  EXPECT_EQ(modes_of("ld.global.u64 %rd3, [pointer]; st.global.u32 [%rd3], 1;"), "unknown");
  EXPECT_EQ(modes_of("st.shared.u64 [s], %rd1; ld.shared.u64 %rd3, [s]; st.global.u32 [%rd3], 1;"),
            "unknown");
  EXPECT_EQ(modes_of("st.local.u64 [l], %rd1; ld.local.u64 %rd3, [l]; st.global.u32 [%rd3], 1;"), "w* - -");
  EXPECT_EQ(modes_of("st.local.u64 [l], %rd1; ld.local.u64 %rd3, [l+8]; st.global.u32 [%rd3], 1;"), "unknown")
      << "never stored";
  EXPECT_EQ(modes_of("ld.global.u64 %rd4, [%rd2]; st.local.u64 [l+8], %rd4; st.local.u64 [l], %rd1; "
                     "ld.local.u64 %rd3, [l]; st.global.u32 [%rd3], 1;"),
            "w* r -")
      << "other bytes of the same variable";
  EXPECT_EQ(modes_of("ld.global.u64 %rd4, [%rd2]; st.local.u64 [l+4], %rd4; st.local.u64 [l], %rd1; "
                     "ld.local.u64 %rd3, [l]; st.global.u32 [%rd3], 1;"),
            "unknown")
      << "overlapping bytes";
  EXPECT_EQ(modes_of("mov.u64 %rd3, l; cvta.local.u64 %rd4, %rd3; st.u64 [%rd4+8], %rd2; ld.u64 %rd5, "
                     "[%rd4+8]; st.u32 [%rd5], 1;"),
            "- w* -");
  EXPECT_EQ(modes_of("st.global.u32 [%rd9], 1;"), "unknown") << "never written";
  EXPECT_EQ(modes_of("mov.u64 %rd3, 4096; st.global.u32 [%rd3], 1;"), "unknown") << "absolute";
  EXPECT_EQ(modes_of("st.global.u32 [4096], 1;"), "unknown");
  EXPECT_EQ(modes_of("call f;"), "unknown");
  EXPECT_EQ(modes_of("atom.global.add.u32 %r3, [%rd1], 1;"), "rw - -");
  EXPECT_EQ(modes_of("red.global.add.u32 [%rd1], 1;"), "rw - -");
  EXPECT_EQ(modes_of("atom.acquire.gpu.global.add.u32 %r3, [%rd1], 1;"), "unknown");
  EXPECT_EQ(modes_of("red.relaxed.sys.global.add.u32 [%rd1], 1;"), "unknown");
  EXPECT_EQ(modes_of("ld.volatile.global.u32 %r3, [%rd1];"), "unknown");
  EXPECT_EQ(modes_of("ld.acquire.gpu.global.u32 %r3, [%rd1];"), "unknown");
  EXPECT_EQ(modes_of("ld.relaxed.gpu.global.u32 %r3, [%rd1];"), "unknown");
  EXPECT_EQ(modes_of("st.release.gpu.global.u32 [%rd1], 1;"), "unknown");
  EXPECT_EQ(modes_of("st.volatile.global.u32 [%rd1], 1;"), "unknown");
  EXPECT_EQ(modes_of("fence.acq_rel.sys;"), "unknown");
  EXPECT_EQ(modes_of("membar.sys;"), "unknown");
  EXPECT_EQ(modes_of("membar.gl; fence.acq_rel.gpu; bar.sync 0;"), "- - -");
  EXPECT_EQ(modes_of("tex.1d.v4.s32.s32 {%r3,%r4,%r5,%r6}, [%rd1, {%r2}];"), "unknown");
  EXPECT_EQ(modes_of("sust.b.1d.b32.trap [%rd1, {%r2}], %r2;"), "unknown");
  EXPECT_EQ(modes_of("griddepcontrol.launch_dependents;"), "unknown");
  EXPECT_EQ(modes_of("multimem.red.relaxed.sys.global.add.u32 [%rd1], 1;"), "unknown");
  EXPECT_EQ(modes_of("some.future.instruction %r3, [%rd1];"), "unknown");
  EXPECT_EQ(
      modes_of("cp.async.ca.shared.global [s], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 0;"),
      "r - -");
  EXPECT_EQ(
      modes_of("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], %r1, [s];"),
      "r* - -");
  EXPECT_EQ(modes_of("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 64;"), "w - -");
  EXPECT_EQ(modes_of("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [s], 64;"),
            "rw - -");
  EXPECT_EQ(modes_of("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r2}], [s];"), "unknown");
  EXPECT_EQ(modes_of("discard.global.L2 [%rd1], 128;"), "w - -");
  EXPECT_EQ(modes_of("prefetch.global.L2 [%rd1];"), "- - -");
  EXPECT_EQ(modes_of("and.b64 %rd3, %rd1, -16; st.global.u32 [%rd3], 1;"), "w - -") << "aligned pointer";
  EXPECT_EQ(modes_of("mov.b64 {%r3, %r4}, %rd1; mov.b64 %rd3, {%r3, %r4}; st.global.u32 [%rd3], 1;"),
            "w* - -")
      << "taken apart and put together";
  EXPECT_EQ(modes_of("shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, "
                     "%rd3; st.global.u32 [%rd4], 1;"),
            "w* - -");
  EXPECT_EQ(modes_of("mov.u64 %rd3, %rd1; @%p1 mov.u64 %rd3, %rd2; st.global.u32 [%rd3], 1;"), "w w -")
      << "a guarded move keeps the old value";
  EXPECT_EQ(
      modes_of("L: add.s64 %rd1, %rd1, 4; st.global.u32 [%rd1], 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;"),
      "w* - -");
  EXPECT_EQ(
      modes_of(
          "L: st.global.u32 [%rd1], 1; ld.global.u64 %rd1, [%rd1]; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;"),
      "unknown")
      << "linked list";
  EXPECT_EQ(modes_of("st.global.u32 [%rd3], 1; mov.u64 %rd3, %rd1;"), "unknown")
      << "used before it is written";
}

TEST(Access, FirstTurnUsesWhatNothingWrote) {
  EXPECT_EQ(modes_of("mov.u64 %rd4, %rd2;\nL: st.global.u32 [%rd4], 1; mov.u64 %rd4, %rd5; add.s64 %rd5, "
                     "%rd1, 4; @%p1 bra L;"),
            "unknown");
}

TEST(Access, EntryThatIsALoopHead) {
  auto module = ptx_test::parse_ok(
      ".version 9.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a) {\n.reg .pred %p<2>; .reg .b64 "
      "%rd<4>;\n"
      "L: st.global.u32 [%rd1], 1; ld.param.u64 %rd1, [a]; @%p1 bra L; ret; }");
  EXPECT_EQ(modes(analyse_access(*module, *ptx_test::find(*module, "k"))), "unknown");
}

TEST(Access, AccessesWithDifferentGuardsAreNotBoundedTogether) {
  auto module = ptx_test::parse_ok(
      ".version 9.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a, .param .u32 n, .param .u32 m) "
      "{\n.reg .pred %p<4>; .reg .b32 "
      "%r<8>; .reg .b64 %rd<8>;\nld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; ld.param.u32 %r3, [m]; "
      "mov.u32 %r2, %tid.x;\n"
      "mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;\n"
      "setp.lt.s32 %p1, %r2, %r1; @%p1 st.global.u32 [%rd3], 1; setp.lt.s32 %p2, %r2, %r3; @%p2 "
      "st.global.u32 [%rd3+8], 1; ret; }");
  const KernelAccess access = analyse_access(*module, *ptx_test::find(*module, "k"));
  EXPECT_EQ(ranges(access, {{1, 1, 1}, {64, 1, 1}}, Values(access)(10000)(4)(40)), "10000-10168:w");
  EXPECT_EQ(ranges(access, {{1, 1, 1}, {64, 1, 1}}, Values(access)(10000)(40)(4)), "10000-10160:w");
}

TEST(Access, BoundsOfOneAccessAreNotThoseOfAnother) {
  auto module = ptx_test::parse_ok(
      ".version 9.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a, .param .u64 n) {\n.reg .pred "
      "%p<4>; .reg .b64 %rd<8>;\n"
      "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [n]; shl.b64 %rd3, %rd2, 2; add.s64 %rd4, %rd1, %rd3;\n"
      "setp.lt.s64 %p1, %rd2, 10; @%p1 st.global.u32 [%rd4], 1; setp.lt.s64 %p2, %rd2, 1000; @%p2 "
      "st.global.u32 [%rd4+8], 1; ret; }");
  const KernelAccess access = analyse_access(*module, *ptx_test::find(*module, "k"));
  EXPECT_EQ(ranges(access, {}, Values(access)(10000)(100)), "10400-10412:w");
}

TEST(Access, IntegerOperations) {
  auto range = [](const std::string& body, uint32_t n) {
    auto module = ptx_test::parse_ok(
        ".version 9.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a, .param .u32 n) {\n.reg .pred "
        "%p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;"
        "ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n" +
        body + "\ncvt.u64.u32 %rd2, %r3; add.s64 %rd3, %rd1, %rd2; st.global.u8 [%rd3], 1; ret; }");
    const KernelAccess access = analyse_access(*module, *ptx_test::find(*module, "k"));
    return ranges(access, {{1, 1, 1}, {100, 1, 1}}, Values(access)(100000)(n));
  };
  EXPECT_EQ(range("div.u32 %r3, %r2, %r1;", 7), "100000-100015:w");
  EXPECT_EQ(range("div.u32 %r3, %r1, 7;", 70), "100010-100011:w");
  EXPECT_EQ(range("add.s32 %r4, %r2, 1; div.u32 %r3, %r1, %r4;", 200), "100002-100201:w");
  EXPECT_EQ(range("div.u32 %r3, %r1, %r2;", 200), "100000*:w") << "the first thread divides by zero";
  EXPECT_EQ(range("rem.u32 %r3, %r2, %r1;", 7), "100000-100007:w");
  EXPECT_EQ(range("rem.u32 %r3, %r2, %r1;", 1000), "100000-100100:w");
  EXPECT_EQ(range("shr.u32 %r3, %r2, 3;", 0), "100000-100013:w");
  EXPECT_EQ(range("and.b32 %r3, %r2, 15;", 0), "100000-100016:w");
  EXPECT_EQ(range("and.b32 %r3, %r1, -16;", 55), "100048-100049:w");
  EXPECT_EQ(range("add.s32 %r4, %r2, 20; and.b32 %r3, %r4, 0xFFFFFFF8;", 55), "100016-100113:w");
  EXPECT_EQ(range("or.b32 %r3, %r2, 128;", 0), "100000-100228:w");
  EXPECT_EQ(range("min.u32 %r3, %r2, %r1;", 7), "100000-100008:w");
  EXPECT_EQ(range("max.u32 %r3, %r2, %r1;", 7), "100007-100100:w");
  EXPECT_EQ(range("mul.hi.u32 %r3, %r2, 0x80000000;", 0), "100000-100050:w");
  EXPECT_EQ(range("bfe.u32 %r3, %r1, 4, 5;", 0), "100000-100032:w");
  EXPECT_EQ(range("selp.b32 %r3, %r2, %r1, %p1;", 300), "100000-100100:w 100300-100301:w");
  EXPECT_EQ(range("not.b32 %r4, %r2; neg.s32 %r5, %r4; sub.s32 %r3, %r5, 1;", 0), "100000-100100:w");
  EXPECT_EQ(range("shl.b32 %r4, %r2, 2; mad.lo.s32 %r3, %r4, 3, %r1;", 5), "100005-101194:w");
  EXPECT_EQ(range("cvt.u32.u16 %r3, %r1;", 65536 + 3), "100000*:w") << "the polynomial is not the low half";
  EXPECT_EQ(range("popc.b32 %r3, %r1;", 0), "100000-100065:w");
  EXPECT_EQ(range("ld.param.u16 %r3, [n];", 65535), "165535-165536:w") << "extended with zeros";
  EXPECT_EQ(range("ld.param.u8 %r3, [n];", 200), "100200-100201:w");
}

TEST(Access, LoopsDoNotFoolTheBounds) {
  auto evaluate = [](const std::string& body, uint32_t n) {
    auto module = ptx_test::parse_ok(
        ".version 9.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a, .param .u32 n) {\n.reg .pred "
        "%p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;"
        "ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n" +
        body + "\nret; }");
    const KernelAccess access = analyse_access(*module, *ptx_test::find(*module, "k"));
    return ranges(access, {{1, 1, 1}, {32, 1, 1}}, Values(access)(100000)(n));
  };
  const std::string store = "mul.wide.s32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;\n";
  // Counts up to n: tested before, at the end, and with the test on the value before the step.
  EXPECT_EQ(
      evaluate("L: setp.ge.s32 %p1, %r2, %r1; @%p1 bra E;\n" + store + "add.s32 %r2, %r2, 1; bra L; E:", 100),
      "100000-100400:w");
  EXPECT_EQ(evaluate("setp.ge.s32 %p1, %r2, %r1; @%p1 bra E;\nL: " + store +
                         "add.s32 %r2, %r2, 8; setp.lt.s32 %p1, %r2, %r1; @%p1 bra L; E:",
                     100),
            "100000-100400:w");
  EXPECT_EQ(evaluate("setp.ge.s32 %p1, %r2, %r1; @%p1 bra E;\nL: " + store +
                         "setp.lt.s32 %p1, %r2, %r1; add.s32 %r2, %r2, 8; @%p1 bra L; E:",
                     100),
            "100000-100432:w");
  // The condition compares another register, or the step goes the wrong way, or the bound changes: no upper
  // bound.
  EXPECT_EQ(evaluate("mov.u32 %r3, 0;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r1; @%p1 bra L;",
                     100),
            "100000-100524:w")
      << "a counter of its own";
  EXPECT_EQ(evaluate("L: " + store + "add.s32 %r2, %r2, -1; setp.lt.s32 %p1, %r2, %r1; @%p1 bra L;", 100),
            "100000*:w");
  EXPECT_EQ(evaluate("L: setp.ge.s32 %p1, %r2, %r1; @%p1 bra E;\n" + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r1, %r1, 2; bra L; E:",
                     100),
            "100000*:w");
  // The guard is taken before the register changes: it says nothing about the new value.
  EXPECT_EQ(evaluate("setp.ge.s32 %p1, %r2, %r1; @%p1 bra E;\nmul.lo.s32 %r2, %r2, 3;\n" + store + "E:", 100),
            "100000-100376:w");
  EXPECT_EQ(evaluate("setp.ge.s32 %p1, %r2, %r1; @%p1 bra E;\nadd.s32 %r2, %r2, 1000;\n" + store + "E:", 10),
            "104000-104040:w");
  // Counters that end by meeting a value exactly: only from a multiple of their step.
  EXPECT_EQ(evaluate("and.b32 %r3, %r1, -4; setp.lt.s32 %p1, %r1, 4; @%p1 bra E;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, -4; setp.ne.s32 %p1, %r3, 0; @%p1 bra L; E:",
                     100),
            "100000-100224:w");
  EXPECT_EQ(evaluate("and.b32 %r4, %r1, 3; sub.s32 %r3, %r1, %r4; setp.lt.s32 %p1, %r1, 4; @%p1 bra E;\nL: " +
                         store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, -4; setp.ne.s32 %p1, %r3, 0; @%p1 bra L; E:",
                     101),
            "100000-100224:w");
  EXPECT_EQ(evaluate("mov.u32 %r3, %r1;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, -4; setp.ne.s32 %p1, %r3, 0; @%p1 bra L;",
                     100),
            "100000*:w")
      << "n may be no multiple of 4";
  EXPECT_EQ(evaluate("and.b32 %r3, %r1, 7;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, -1; setp.ne.s32 %p1, %r3, 0; @%p1 bra L;",
                     100),
            "100000*:w")
      << "n & 7 may be 0, and then the loop turns 2^32 times";
  EXPECT_EQ(evaluate("and.b32 %r3, %r1, 7; setp.eq.s32 %p1, %r3, 0; @%p1 bra E;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, -1; setp.ne.s32 %p1, %r3, 0; @%p1 bra L; E:",
                     100),
            "100000-100152:w");
  EXPECT_EQ(evaluate("and.b32 %r3, %r1, -4; setp.lt.s32 %p1, %r1, 4; @%p1 bra E;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, -4; @%p5 bra L; setp.ne.s32 %p1, %r3, 0; "
                         "@%p1 bra L; E:",
                     100),
            "100000*:w")
      << "one way back does not test";
  EXPECT_EQ(evaluate("mov.u32 %r3, 0; mov.u32 %r5, 1;\nL: " + store +
                         "add.s32 %r2, %r2, %r5; add.s32 %r5, %r5, 1; add.s32 %r3, %r3, 1; setp.lt.s32 %p1, "
                         "%r3, 10; @%p1 bra L;",
                     100),
            "100000*:w")
      << "the step grows";
  EXPECT_EQ(evaluate("mov.u32 %r3, 0;\nO: mov.u32 %r4, 0;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r4, %r4, 1; setp.lt.s32 %p1, %r4, 5; @%p1 bra L; "
                         "add.s32 %r3, %r3, 1; setp.lt.s32 %p1, "
                         "%r3, 3; @%p1 bra O;",
                     100),
            "100000*:w")
      << "the inner loop starts where it ended: not a fixed start";
  EXPECT_EQ(
      evaluate("and.b32 %r3, %r1, -4; mov.u32 %r5, 0; setp.lt.s32 %p1, %r1, 4; @%p1 bra E;\nL: " + store +
                   "add.s32 %r2, %r2, 1; add.s32 %r5, %r5, 1; add.s32 %r3, %r3, -4; setp.lt.s32 %p2, %r5, "
                   "1000; @%p2 bra L; setp.ne.s32 %p1, "
                   "%r3, 0; @%p1 bra L; E:",
               100),
      "100000*:w")
      << "the other way back jumps over 0";
  EXPECT_EQ(evaluate("mov.u32 %r3, 0; @%p5 bra A; bra L;\nA: add.s32 %r2, %r2, 1000; bra L;\nL: " + store +
                         "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, 10; @%p1 bra L;",
                     100),
            "100000*:w")
      << "two starts";
  EXPECT_EQ(evaluate("mov.u32 %r3, 0;\nL: " + store +
                         "add.s32 %r3, %r3, 1; setp.ge.s32 %p1, %r3, 10; @%p1 bra E; @%p5 bra B; add.s32 "
                         "%r2, %r2, 1; bra L;\nB: add.s32 %r2, %r2, "
                         "100; bra L;\nE:",
                     100),
            "100000*:w")
      << "two steps";
  EXPECT_EQ(evaluate("mov.u32 %r3, 0; add.s32 %r2, %r2, 10;\nL: " + store +
                         "add.s32 %r4, %r2, 1; cvt.u32.u8 %r2, %r4; add.s32 %r3, %r3, 1; setp.lt.s32 %p1, "
                         "%r3, 300; @%p1 bra L;",
                     100),
            "100000*:w")
      << "the moving register wraps at 8 bits";
  EXPECT_EQ(
      evaluate("mov.u32 %r3, %r1;\nL: " + store +
                   "add.s32 %r2, %r2, 1; add.s32 %r3, %r3, 4; setp.lt.s32 %p1, %r3, 2147483647; @%p1 bra L;",
               2147483640),
      "100000*:w")
      << "the counter wraps before it meets its limit";
  // A wrapping step: i += 2^30 can pass the test and become negative.
  EXPECT_EQ(evaluate("setp.ge.s32 %p1, %r2, %r1; @%p1 bra E;\nL: " + store +
                         "add.s32 %r2, %r2, 1073741824; setp.lt.s32 %p1, %r2, %r1; @%p1 bra L; E:",
                     2000000000),
            "100000*:w");
  // Unsigned and signed readings differ: -1 < n does not hold for u32.
  EXPECT_EQ(evaluate("add.s32 %r2, %r2, -16; setp.ge.u32 %p1, %r2, %r1; @%p1 bra E;\n" + store + "E:", 10),
            "99936-100064:w");
}

TEST(Access, SpeedPerKernel) {
  // Budget: 1 ms per typical kernel. The median over compiled kernels is far below; the largest are library
  // kernels.
  std::vector<double> seconds;
  for (const char* file : {"access_90", "basic_90", "library_90"}) {
    auto module = ptx_test::parse_ok(ptx_test::read_file(std::string(PTX_TEST_DIR) + "/" + file + ".ptx"));
    for (const Function& f : module->functions) {
      if (!f.is_entry || f.is_declaration) continue;
      const auto begin = std::chrono::steady_clock::now();
      analyse_access(*module, f);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::sort(seconds.begin(), seconds.end());
  EXPECT_LT(seconds[seconds.size() / 2], 1e-3);
}

}  // namespace
