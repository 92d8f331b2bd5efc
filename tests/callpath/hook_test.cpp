// Hooks and links: the program's call reaches the driver unchanged and its code comes back unchanged; links
// see an exact description; what a link answers is what the program gets.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/exec/bypass.h"
#include "runtime/exec/chain.h"
#include "runtime/exec/driver.h"
#include "runtime/exec/hook_tables.h"
#include "runtime/exec/links/driver_link.h"
#include "runtime/exec/links/model_link.h"
#include "tests/callpath/fake_host.h"

namespace shunt::exec {
namespace {

using model::OpClass;
using model::OpKind;

class Spy final : public Link {
 public:
  const char* name() const override { return "spy"; }
  CUresult on_op(model::Op& op) override {
    seen.push_back(op);
    if (answer) return answer(op);
    return next->on_op(op);
  }
  void drain(const Scope& scope, Reason) override { drains.push_back(scope.kind); }
  void forget(HandleKind kind, uint64_t handle) override {
    forgotten.emplace_back(kind, handle);
    driver_calls_before = FakeDriver::get().calls.size();
  }
  void disable() override { disabled = true; }
  uint64_t release_memory(uint64_t bytes) override { return releases ? std::min<uint64_t>(bytes, 100) : 0; }
  bool sees_launches() const override { return needs_launches; }
  bool needs_launches = true;
  std::vector<model::Op> seen;
  std::vector<Scope::Kind> drains;
  std::vector<std::pair<HandleKind, uint64_t>> forgotten;
  size_t driver_calls_before = 0;
  std::function<CUresult(model::Op&)> answer;
  bool disabled = false, releases = false;
};

class HookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_host = fake_host();
    FakeDriver::get().reset();
    model::Model::fork_child();
    for (uint32_t slot = 0; slot < SHUNT_SLOT_FIRST_NCCL; slot++) install(slot, all_hooks()[slot]);
    model::Questions q;
    q.ctx_get_current = Driver::get().ctx_get_current;
    model::Model::get().set_questions(q);
    spy_ = new Spy();
  }
  void TearDown() override { Chain::get().build({}); }
  void with_chain() { Chain::get().build({new ModelLink(), spy_, new DriverLink()}); }
  static std::vector<std::string>& calls() { return FakeDriver::get().calls; }
  Spy* spy_;
};

TEST_F(HookTest, OffPassesThrough) {
  CUdeviceptr p = 0;
  EXPECT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{64}), CUDA_SUCCESS);
  EXPECT_EQ(p, 0x2000u);
  EXPECT_EQ(calls(), std::vector<std::string>{"cuMemAlloc_v2(64)"});
  EXPECT_TRUE(spy_->seen.empty());
  EXPECT_EQ(model::Model::get().counts().allocations, 0u);
}

TEST_F(HookTest, EveryHookedSlotIsNotHarmlessOrBearsOrdinals) {
  int hooked = 0;
  for (uint32_t slot = 0; slot < SHUNT_SLOT_FIRST_NCCL; slot++) {
    const bool wanted = kSlots[slot].op_class != OpClass::harmless || bears_ordinals(slot);
    EXPECT_EQ(all_hooks()[slot] != nullptr, wanted) << kSlots[slot].symbol;
    hooked += wanted;
  }
  EXPECT_GT(hooked, 450);
  EXPECT_TRUE(bears_ordinals(SHUNT_SLOT_cuDeviceGetName));
  EXPECT_FALSE(bears_ordinals(SHUNT_SLOT_cuLaunchKernel));
}

TEST_F(HookTest, AllocationIsDescribedAndShadowed) {
  with_chain();
  CUdeviceptr p = 0;
  ASSERT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{4096}), CUDA_SUCCESS);
  ASSERT_EQ(spy_->seen.size(), 1u);
  EXPECT_EQ(spy_->seen[0].kind, OpKind::alloc_linear);
  EXPECT_EQ(spy_->seen[0].op_class, OpClass::alloc);
  EXPECT_EQ(spy_->seen[0].bytes, 4096u);
  EXPECT_TRUE(model::Model::get().allocations().find(p + 4095));
  EXPECT_EQ(call<SHUNT_SLOT_cuMemFree_v2>(p), CUDA_SUCCESS);
  EXPECT_FALSE(model::Model::get().allocations().find(p));
}

TEST_F(HookTest, DriverErrorsComeBackExactly) {
  with_chain();
  for (const CUresult code : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_ILLEGAL_ADDRESS,
                              CUDA_ERROR_NOT_INITIALIZED, static_cast<CUresult>(9999)}) {
    FakeDriver::get().result = code;
    CUdeviceptr p = 0x77;
    EXPECT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{1}), code);
    EXPECT_EQ(p, 0x77u) << "outputs of a failed call are the driver's business";
    CUstream s = nullptr;
    EXPECT_EQ(call<SHUNT_SLOT_cuStreamCreate>(&s, 0u), code);
  }
  EXPECT_EQ(model::Model::get().counts().allocations, 0u);
}

// A stream an engine has given up on costs next to nothing; everything else still sees every launch.
TEST_F(HookTest, GrantedLaunchesGoStraightToTheDriver) {
  const auto f = reinterpret_cast<CUfunction>(0xF00);
  const auto mine = reinterpret_cast<CUstream>(0x51), other = reinterpret_cast<CUstream>(0x52);
  int x = 5;
  void* params[] = {&x};
  const auto launch = [&](CUstream s) {
    return call<SHUNT_SLOT_cuLaunchKernel>(f, 1u, 1u, 1u, 32u, 1u, 1u, 0u, s, params,
                                           static_cast<void**>(nullptr));
  };
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY =
      config.blockDimZ = 1;
  config.hStream = mine;
  const auto launch_ex = [&] {
    return call<SHUNT_SLOT_cuLaunchKernelEx>(static_cast<const CUlaunchConfig*>(&config), f,
                                             static_cast<void**>(params), static_cast<void**>(nullptr));
  };
  with_chain();
  EXPECT_FALSE(grant_bypass(0x51, 100)) << "a link wants to see launches";
  EXPECT_EQ(launch(mine), CUDA_SUCCESS);
  EXPECT_EQ(spy_->seen.size(), 1u);

  spy_ = new Spy();
  spy_->needs_launches = false;
  with_chain();
  EXPECT_TRUE(grant_bypass(0x51, 4));
  const size_t before = calls().size();
  EXPECT_EQ(launch(mine), CUDA_SUCCESS);
  EXPECT_EQ(launch_ex(), CUDA_SUCCESS);
  EXPECT_EQ(spy_->seen.size(), 0u);
  EXPECT_EQ(calls().size(), before + 2);
  EXPECT_EQ(launch(other), CUDA_SUCCESS);
  EXPECT_EQ(spy_->seen.size(), 1u) << "another stream";
  holding(true);
  EXPECT_EQ(launch(mine), CUDA_SUCCESS);
  holding(false);
  EXPECT_EQ(spy_->seen.size(), 2u) << "something is held back";

  FakeDriver::get().result = CUDA_ERROR_OUT_OF_MEMORY;
  const size_t calls_before = calls().size();
  EXPECT_EQ(launch(mine), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(spy_->seen.size(), 3u) << "a failure comes the long way";
  EXPECT_EQ(calls().size(), calls_before + 1) << "and is not made twice";
  spy_->answer = [&](model::Op& op) {  // a link that tries again makes the call again
    const CUresult first = op.invoke(op);
    FakeDriver::get().result = CUDA_SUCCESS;
    EXPECT_EQ(first, CUDA_ERROR_OUT_OF_MEMORY);
    return op.invoke(op);
  };
  EXPECT_EQ(launch(mine), CUDA_SUCCESS);
  EXPECT_EQ(calls().size(), calls_before + 3);
  spy_->answer = nullptr;
  EXPECT_EQ(launch(mine), CUDA_SUCCESS);
  EXPECT_EQ(spy_->seen.size(), 5u) << "the grant is used up";
}

TEST_F(HookTest, LaunchShape) {
  with_chain();
  const auto f = reinterpret_cast<CUfunction>(0xF00);
  int x = 5;
  void* params[] = {&x};
  EXPECT_EQ(call<SHUNT_SLOT_cuLaunchKernel>(f, 2u, 3u, 4u, 32u, 1u, 1u, 128u, static_cast<CUstream>(nullptr),
                                            params, static_cast<void**>(nullptr)),
            CUDA_SUCCESS);
  const model::Op& op = spy_->seen.at(0);
  EXPECT_EQ(op.kind, OpKind::kernel);
  EXPECT_EQ(op.object, 0xF00u);
  EXPECT_EQ(op.launch.grid[1], 3u);
  EXPECT_EQ(op.launch.block[0], 32u);
  EXPECT_EQ(op.launch.shared_bytes, 128u);
  EXPECT_EQ(op.launch.params[0], &x);
  EXPECT_TRUE(op.asynchronous);
  ASSERT_NE(op.stream_info, nullptr);
  EXPECT_EQ(op.stream_info->role, model::StreamRole::legacy_default);
  EXPECT_EQ(calls().back(), "cuLaunchKernel(3840,2,32,128,0)");
  call<SHUNT_SLOT_cuLaunchKernel_ptsz>(f, 1u, 1u, 1u, 1u, 1u, 1u, 0u, static_cast<CUstream>(nullptr), params,
                                       static_cast<void**>(nullptr));
  EXPECT_EQ(spy_->seen.at(1).stream_info->role, model::StreamRole::thread_default);
}

TEST_F(HookTest, CopyRanges) {
  with_chain();
  call<SHUNT_SLOT_cuMemcpyAsync>(CUdeviceptr{0x100}, CUdeviceptr{0x900}, size_t{32},
                                 static_cast<CUstream>(nullptr));
  const model::Op& op = spy_->seen.at(0);
  ASSERT_EQ(op.range_count, 2);
  EXPECT_EQ(op.ranges[0].base, 0x100u);
  EXPECT_EQ(op.ranges[0].access, model::Access::write);
  EXPECT_EQ(op.ranges[1].base, 0x900u);
  EXPECT_EQ(op.ranges[1].bytes, 32u);
  EXPECT_TRUE(op.has_stream_order());
}

TEST_F(HookTest, UndescribedCallsAreSeenWithTheirClass) {
  with_chain();
  CUsurfObject surface = 0;
  EXPECT_EQ(call<SHUNT_SLOT_cuSurfObjectCreate>(&surface, static_cast<const CUDA_RESOURCE_DESC*>(nullptr)),
            CUDA_SUCCESS);
  EXPECT_EQ(spy_->seen.at(0).kind, OpKind::other);
  EXPECT_EQ(spy_->seen.at(0).op_class, OpClass::alloc);
  EXPECT_NE(surface, 0u);
}

TEST_F(HookTest, ALinkMayAnswerItself) {
  with_chain();
  spy_->answer = [](model::Op&) { return CUDA_ERROR_OUT_OF_MEMORY; };
  CUdeviceptr p = 0;
  EXPECT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{64}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(model::Model::get().counts().allocations, 0u);
}

TEST_F(HookTest, ALinkMayTryAgain) {
  with_chain();
  FakeDriver::get().result = CUDA_ERROR_OUT_OF_MEMORY;
  spy_->answer = [this](model::Op& op) {
    EXPECT_EQ(spy_->next->on_op(op), CUDA_ERROR_OUT_OF_MEMORY);
    FakeDriver::get().result = CUDA_SUCCESS;
    return spy_->next->on_op(op);
  };
  CUdeviceptr p = 0;
  EXPECT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{64}), CUDA_SUCCESS);
  EXPECT_NE(p, 0u);
  EXPECT_EQ(calls().size(), 2u);
  EXPECT_TRUE(model::Model::get().allocations().find(p));
}

TEST_F(HookTest, KillSwitchDrainsAndLeaves) {
  with_chain();
  Chain::get().kill("test");
  EXPECT_EQ(spy_->drains, std::vector<Scope::Kind>{Scope::Kind::all});
  EXPECT_TRUE(spy_->disabled);
  CUdeviceptr p = 0;
  EXPECT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{64}), CUDA_SUCCESS);
  EXPECT_TRUE(spy_->seen.empty());
  Chain::get().kill("again");
  EXPECT_EQ(spy_->drains.size(), 1u);
}

TEST_F(HookTest, AnExceptionInALinkEndsTheEnginesNotTheProgram) {
  with_chain();
  CUdeviceptr p = 0;
  spy_->answer = [](model::Op&) -> CUresult { throw std::bad_alloc(); };
  EXPECT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{64}), CUDA_SUCCESS);
  EXPECT_EQ(calls().size(), 1u) << "the call was still to be made, and was made once";
  EXPECT_EQ(Chain::first(), nullptr);
  with_chain();
  FakeDriver::get().result = CUDA_ERROR_ILLEGAL_ADDRESS;
  spy_->answer = [this](model::Op& op) -> CUresult {
    spy_->next->on_op(op);
    throw std::bad_alloc();
  };
  EXPECT_EQ(call<SHUNT_SLOT_cuMemFree_v2>(p), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(calls().size(), 2u) << "it had been made: not a second time";
}

// Every link hears of a handle's end before the driver does: it may hold work for it, or name it.
TEST_F(HookTest, LinksForgetAHandleBeforeTheDriverDestroysIt) {
  with_chain();
  CUstream s = nullptr;
  CUdeviceptr p = 0;
  ASSERT_EQ(call<SHUNT_SLOT_cuStreamCreate>(&s, 0u), CUDA_SUCCESS);
  ASSERT_EQ(call<SHUNT_SLOT_cuMemAlloc_v2>(&p, size_t{64}), CUDA_SUCCESS);
  EXPECT_TRUE(spy_->forgotten.empty());
  const size_t calls_so_far = calls().size();
  ASSERT_EQ(call<SHUNT_SLOT_cuStreamDestroy_v2>(s), CUDA_SUCCESS);
  EXPECT_EQ(spy_->driver_calls_before, calls_so_far);
  ASSERT_EQ(call<SHUNT_SLOT_cuMemFree_v2>(p), CUDA_SUCCESS);
  const std::vector<std::pair<HandleKind, uint64_t>> expected = {
      {HandleKind::stream, reinterpret_cast<uint64_t>(s)}, {HandleKind::allocation, p}};
  EXPECT_EQ(spy_->forgotten, expected);
}

TEST_F(HookTest, ReleaseMemoryAsksUntilEnough) {
  auto* second = new Spy();
  spy_->releases = second->releases = true;
  Chain::get().build({spy_, second, new DriverLink()});
  EXPECT_EQ(Chain::get().release_memory(60), 60u);
  EXPECT_EQ(Chain::get().release_memory(150), 150u);
  EXPECT_EQ(Chain::get().release_memory(500), 200u);
}

TEST_F(HookTest, CapabilitiesTellWhatTheDriverLacks) {
  EXPECT_TRUE(Driver::get().has(Capability::launch_kernel));
  EXPECT_FALSE(Driver::get().has(Capability::graph_upload));
  EXPECT_EQ(Driver::get().graph_upload, nullptr);
  EXPECT_EQ(g_hooks.count(SHUNT_SLOT_cuGraphUpload), 0u) << "nothing is hooked that the driver does not have";
}

}  // namespace
}  // namespace shunt::exec
