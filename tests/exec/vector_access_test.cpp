// A lane's vector access of up to 16 bytes is seen whole by other blocks: look-back scans (CUB's) pass a
// value and its status in one 16-byte store.
#include <thread>

#include "tests/exec/fixture.h"

namespace simgpu::exec::test {
namespace {

constexpr const char* kPtx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry tear(.param .u64 data, .param .u64 wrong, .param .u32 rounds, .param .u32 role)
{
  .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .pred %p<4>;
  ld.param.u64 %rd0, [data]; ld.param.u64 %rd1, [wrong]; ld.param.u32 %r0, [rounds];
  ld.param.u32 %r1, [role];
  setp.ne.u32 %p0, %r1, 0;
  @%p0 bra reader;
writer:
  cvt.u64.u32 %rd2, %r0;
  st.relaxed.gpu.global.v2.u64 [%rd0], {%rd2, %rd2};
  sub.u32 %r0, %r0, 1; setp.ne.u32 %p1, %r0, 0; @%p1 bra writer;
  ret;
reader:
  ld.relaxed.gpu.global.v2.u64 {%rd3, %rd4}, [%rd0];
  setp.eq.u64 %p2, %rd3, %rd4;
  @%p2 bra fine;
  red.global.add.u32 [%rd1], 1;
fine:
  sub.u32 %r0, %r0, 1; setp.ne.u32 %p1, %r0, 0; @%p1 bra reader;
  ret;
}
)";

TEST(VectorAccess, SixteenBytesAreNeverTorn) {
  Device d;
  ASSERT_TRUE(d.load(kPtx));
  const uint64_t data = d.memory.allocate(64), wrong = d.memory.allocate(4);
  // Two kernels on two host threads, so that they really run at the same time.
  std::thread writer([&] { d.ok("tear", {1}, {1}, args(data, wrong, 3'000'000u, 0u)); });
  d.ok("tear", {1}, {1}, args(data, wrong, 3'000'000u, 1u));
  writer.join();
  EXPECT_EQ(*d.memory.host<uint32_t>(wrong), 0u);
}

}  // namespace
}  // namespace simgpu::exec::test
