// Memsets and copies within device memory as nodes: held back like launches, and only where the driver could
// have nothing to say at the call.
#include "tests/graphs/engine_fixture.h"

namespace shunt::graphs::test {
namespace {

using model::MemoryKind;
constexpr uint64_t kA = 0x1000, kMemory = 0x70000000, kBytes = 1 << 20;

class Transfers : public EngineTest {
 protected:
  // Launches with a memset and a copy among them, until they are replayed; stops right before the memset.
  void loop() {
    const uint64_t before = link_->shared().replayed_launches.load();
    for (uint32_t k = 0; k < 4000; ++k) {
      period(k);
      if (link_->shared().replayed_launches.load() > before + 100) break;
      if (k > 100) usleep(200);
    }
    ASSERT_GT(link_->shared().replayed_launches.load(), before) << "never replayed";
    for (uint32_t i = 0; i < 2; ++i) launch(kA, 0x100 + i, i);
    ASSERT_FALSE(all_submitted(kA)) << "nothing is held back";
  }
  void period(uint32_t k, bool changing = false) {
    for (uint32_t i = 0; i < 2; ++i) launch(kA, 0x100 + i, i);
    fill(kA, kMemory + (changing ? 64 * (k % 100) : 0), changing ? k : 7, 256);
    for (uint32_t i = 2; i < 11; ++i) launch(kA, 0x100 + i, i);
    copy(kA, kMemory + 4096, kMemory + (changing ? 8 * (k % 50) : 0), changing ? 8 + k % 9 : 128);
    for (uint32_t i = 11; i < 16; ++i) launch(kA, 0x100 + i, i);
  }
};

TEST_F(Transfers, AreNodes) {
  own_memory(kMemory, kBytes);
  loop();
  EXPECT_GT(FakeDevice::get().transfer_nodes, 8u);
  fill(kA, kMemory, 7, 256);
  EXPECT_FALSE(all_submitted(kA)) << "as the pattern has it: held back";
  link_->drain(exec::Scope::everything(), Reason::unknown_entry_point);
  EXPECT_TRUE(all_submitted(kA));
}

TEST_F(Transfers, ChangingOnesArriveUnchanged) {
  own_memory(kMemory, kBytes, MemoryKind::async);
  for (uint32_t k = 0; k < 800; ++k) {
    period(k, true);
    if (k > 100 && link_->shared().replayed_launches.load() == 0) usleep(500);
  }
  link_->drain(exec::Scope::everything(), Reason::unknown_entry_point);
  EXPECT_TRUE(all_submitted(kA));
  EXPECT_GT(FakeDevice::get().transfer_nodes, 100u);
  EXPECT_GT(FakeDevice::get().patches, 100u);
}

// Each of these is a call that the driver may refuse, wait for, or make differently: it has to see it, after
// all that came before.
TEST_F(Transfers, WhatTheDriverMayRefuseIsNotHeldBack) {
  const auto again = [&] {
    SetUp();
    own_memory(kMemory, kBytes);
    own_memory(0x71000000, kBytes, MemoryKind::host);
    own_memory(0x72000000, kBytes, MemoryKind::managed);
    own_memory(0x73000000, kBytes, MemoryKind::vmm_mapping);
    const CUcontext mine = context_;
    context_ = reinterpret_cast<CUcontext>(0xD0);
    own_memory(0x74000000, kBytes);
    context_ = mine;
    loop();
  };
  struct Case {
    const char* what;
    uint64_t to, bytes;
  };
  for (const Case& c :
       {Case{"memory nobody owns", 0x75000000, 256}, Case{"pinned host memory", 0x71000000, 256},
        Case{"managed memory", 0x72000000, 256}, Case{"a mapping", 0x73000000, 256},
        Case{"another context's", 0x74000000, 256}, Case{"over the end", kMemory + kBytes - 128, 256},
        Case{"nothing", kMemory, 0}, Case{"not aligned", kMemory + 2, 256}}) {
    again();
    fill(kA, c.to, 7, c.bytes);
    EXPECT_TRUE(all_submitted(kA)) << c.what;
  }
  // The pattern's own call, after the memory has gone.
  again();
  ASSERT_TRUE(model::Model::get().allocations().detach(kMemory));
  fill(kA, kMemory, 7, 256);
  EXPECT_TRUE(all_submitted(kA)) << "freed memory";
  for (const uint64_t from : {0x71000000ull, 0x72000000ull, 0x75000000ull}) {
    again();
    fill(kA, kMemory, 7, 256);
    for (uint32_t i = 2; i < 11; ++i) launch(kA, 0x100 + i, i);
    ASSERT_FALSE(all_submitted(kA));
    copy(kA, kMemory, from, 64);
    EXPECT_TRUE(all_submitted(kA)) << std::hex << from;
  }
}

TEST_F(Transfers, AFailureOfAHeldBackOneReachesTheProgram) {
  own_memory(kMemory, kBytes);
  loop();
  fill(kA, kMemory, 7, 256);
  FakeDevice::get().launch_answer = FakeDevice::get().graph_answer = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_EQ(other(model::OpKind::event_record, model::OpClass::launch, kA), CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace
}  // namespace shunt::graphs::test
