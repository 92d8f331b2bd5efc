// fp8, fp6, fp4 and e8m0 conversions against the toolkit's own host implementation.
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/exec/fixture.h"

namespace simgpu::exec::test {
namespace {

std::vector<float> samples() {
  std::vector<float> v;
  for (float x : {0.0f,          1.0f,     448.0f, 464.0f, 465.0f, 57344.0f, 61440.0f, 65536.0f, 0.001953125f,
                  0.0009765625f, 0.00098f, 6.0f,   7.5f,   28.0f,  29.0f,    0.25f,    0.125f,   0.75f,
                  1.25f,         2.5f,     3.5f,   5.0f,   1e-30f, 1e30f,    INFINITY}) {
    v.push_back(x);
    v.push_back(-x);
  }
  v.push_back(NAN);
  std::mt19937_64 g(7);
  while (v.size() < 4096) {
    const double m =
        std::ldexp(1.0 + static_cast<double>(g() % 4096) / 4096, static_cast<int>(g() % 44) - 24);
    v.push_back(static_cast<float>(g() & 1 ? m : -m));
  }
  return v;
}

// `text` reads %a (and %b, the next sample) and leaves a 32-bit result in %d.
std::vector<uint32_t> convert(const std::string& text, const std::vector<float>& in) {
  Device d;
  const std::string ptx =
      ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q) {\n"
      ".reg .b32 %i, %t, %d; .reg .b16 %h; .reg .b8 %c; .reg .b64 %o, %p; .reg .f32 %a, %b;\n"
      "mov.u32 %i, %ctaid.x; shl.b32 %i, %i, 7; mov.u32 %t, %tid.x; add.u32 %i, %i, %t; mul.wide.u32 %o, %i, "
      "4;\n"
      "ld.param.u64 %p, [p]; add.s64 %p, %p, %o; ld.global.f32 %a, [%p]; neg.f32 %b, %a;\n" +
      text + "\nld.param.u64 %p, [q]; add.s64 %p, %p, %o; st.global.u32 [%p], %d; ret;\n}\n";
  std::string error;
  if (!d.load(ptx, &error)) {
    ADD_FAILURE() << text << ": " << error;
    return {};
  }
  const uint64_t p = d.memory.upload(in), q = d.memory.allocate(in.size() * 4);
  d.ok("k", {static_cast<uint32_t>(in.size() / 128)}, {128}, args(p, q));
  return d.memory.download<uint32_t>(q, in.size());
}

template <class F>
void compare(const std::string& text, F want) {
  const auto in = samples();
  const auto got = convert(text, in);
  int bad = 0;
  for (size_t k = 0; k < got.size() && bad < 5; ++k)
    if (got[k] != want(in[k], -in[k])) {
      bad++;
      ADD_FAILURE() << text << " of " << in[k] << ": got 0x" << std::hex << got[k] << ", want 0x"
                    << want(in[k], -in[k]);
    }
}

TEST(SmallFloats, ToEightBits) {
  compare("cvt.rn.satfinite.e4m3x2.f32 %h, %a, %b; cvt.u32.u16 %d, %h;", [](float a, float b) -> uint32_t {
    return static_cast<uint32_t>(__nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E4M3)) << 8 |
           __nv_cvt_float_to_fp8(b, __NV_SATFINITE, __NV_E4M3);
  });
  compare("cvt.rn.satfinite.e5m2x2.f32 %h, %a, %b; cvt.u32.u16 %d, %h;", [](float a, float b) -> uint32_t {
    return static_cast<uint32_t>(__nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E5M2)) << 8 |
           __nv_cvt_float_to_fp8(b, __NV_SATFINITE, __NV_E5M2);
  });
  compare("cvt.rn.satfinite.e2m3x2.f32 %h, %a, %b; cvt.u32.u16 %d, %h;", [](float a, float b) -> uint32_t {
    return static_cast<uint32_t>(__nv_cvt_float_to_fp6(a, __NV_E2M3, cudaRoundNearest)) << 8 |
           __nv_cvt_float_to_fp6(b, __NV_E2M3, cudaRoundNearest);
  });
  compare("cvt.rn.satfinite.e3m2x2.f32 %h, %a, %b; cvt.u32.u16 %d, %h;", [](float a, float b) -> uint32_t {
    return static_cast<uint32_t>(__nv_cvt_float_to_fp6(a, __NV_E3M2, cudaRoundNearest)) << 8 |
           __nv_cvt_float_to_fp6(b, __NV_E3M2, cudaRoundNearest);
  });
  compare("cvt.rn.satfinite.e2m1x2.f32 %c, %a, %b; cvt.u32.u8 %d, %c;", [](float a, float b) -> uint32_t {
    return static_cast<uint32_t>(__nv_cvt_float_to_fp4(a, __NV_E2M1, cudaRoundNearest)) << 4 |
           __nv_cvt_float_to_fp4(b, __NV_E2M1, cudaRoundNearest);
  });
  compare("cvt.rp.satfinite.ue8m0x2.f32 %h, %a, %b; cvt.u32.u16 %d, %h;", [](float a, float b) -> uint32_t {
    return static_cast<uint32_t>(__nv_cvt_float_to_e8m0(a, __NV_SATFINITE, cudaRoundPosInf)) << 8 |
           __nv_cvt_float_to_e8m0(b, __NV_SATFINITE, cudaRoundPosInf);
  });
}
TEST(SmallFloats, FromEightBits) {  // every pattern, twice
  std::vector<float> in(256);
  for (uint32_t k = 0; k < 256; ++k) {
    const uint32_t v = k | (255 - k) << 8;
    std::memcpy(&in[k], &v, 4);
  }
  const auto check = [&](const char* type, auto raw) {
    const auto got =
        convert(std::string("mov.b32 %t, %a; cvt.u16.u32 %h, %t; cvt.rn.f16x2.") + type + " %d, %h;", in);
    for (uint32_t k = 0; k < got.size(); ++k) {
      const auto want = [&](uint32_t b) -> uint32_t {
        const uint16_t h = raw(static_cast<uint8_t>(b));
        return (h & 0x7fff) > 0x7c00 ? 0x7fff : h;
      };
      ASSERT_EQ(got[k], want(k) | want(255 - k) << 16) << type << " " << k;
    }
  };
  check("e4m3x2", [](uint8_t b) { return static_cast<__half_raw>(__nv_cvt_fp8_to_halfraw(b, __NV_E4M3)).x; });
  check("e5m2x2", [](uint8_t b) { return static_cast<__half_raw>(__nv_cvt_fp8_to_halfraw(b, __NV_E5M2)).x; });
}
// Pool threads and what fork leaves of them.
TEST(Threads, ForkedChildRunsKernels) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
#endif
  const char* source =
      ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<8>; "
      ".reg .b64 %rd<4>; .reg .pred %q;\n"
      "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; shl.b32 %r3, %r1, 5; add.u32 %r3, %r3, %r2; mov.u32 %r4, "
      "0;\n"
      "L: add.u32 %r4, %r4, 1; setp.lt.u32 %q, %r4, 5000; @%q bra L;\nadd.u32 %r4, %r4, %r3;\n"
      "ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], "
      "%r4; ret;\n}\n";
  Device d;
  ASSERT_TRUE(d.load(source));
  d.launch.threads = 3;
  const uint64_t p = d.memory.allocate(200 * 32 * 4);
  const auto good = [&] {
    std::memset(d.memory.host<uint8_t>(p), 0, 200 * 32 * 4);
    if (d.run("k", {200}, {32}, args(p)).state != Execution::State::done) return false;
    for (uint32_t k = 0; k < 200 * 32; ++k)
      if (d.memory.host<uint32_t>(p)[k] != k + 5000) return false;
    return true;
  };
  ASSERT_TRUE(good());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(good() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(good());
}

}  // namespace
}  // namespace simgpu::exec::test
