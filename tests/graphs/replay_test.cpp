// What is replayed is what was called: parameters that change, sequences that change, failures, objects that
// go, periods.
#include <dlfcn.h>

#include "runtime/exec/bypass.h"
#include "runtime/exec/chain.h"
#include "runtime/graphs/period.h"
#include "runtime/trace/call_site.h"
#include "tests/graphs/engine_fixture.h"

namespace shunt::graphs::test {
namespace {

using model::OpClass;
using model::OpKind;
constexpr uint64_t kA = 0x1000;

class Replay : public EngineTest {};

TEST(FindPeriod, OuterLoopBeatsInnerLoop) {
  std::vector<uint32_t> s;
  for (int token = 0; token < 6; ++token) {
    for (int layer = 0; layer < 8; ++layer)
      for (uint32_t k = 0; k < 5; ++k) s.push_back(k);
    s.push_back(100), s.push_back(101);
  }
  EXPECT_EQ(find_period(s, 1000, 3).length, 42u);
  EXPECT_EQ(find_period({1, 2, 3, 1, 2, 3, 1, 2, 3}, 10, 3).length, 3u);
  EXPECT_EQ(find_period({1, 2, 3, 1, 2, 3, 1, 2}, 10, 3).length, 0u) << "not yet three times";
  EXPECT_EQ(find_period({7, 7, 7}, 10, 3).length, 1u);
  EXPECT_EQ(find_period({1, 2, 3, 4, 5, 6}, 10, 3).length, 0u);
  EXPECT_EQ(find_period({}, 10, 3).length, 0u);
}

TEST_F(Replay, ChangingParametersArriveUnchanged) {
  for (uint32_t k = 0; k < 600; ++k) {
    for (uint32_t i = 0; i < 16; ++i) launch(kA, 0x100 + i, i % 8 ? i : k * 100 + i);
    other(OpKind::sync_stream, OpClass::sync, kA);
    ASSERT_TRUE(all_submitted(kA)) << k;
    if (k > 100 && link_->shared().replayed_launches.load() == 0) usleep(500);
  }
  EXPECT_GT(link_->shared().replayed_launches.load(), 16u * 100);
  EXPECT_GT(FakeDevice::get().patches, 100u);
}

TEST_F(Replay, ASurpriseIsSubmittedInOrderAndThePatternIsFoundAgain) {
  train(kA);
  launch(kA, 0x900, 5);  // not what was expected
  EXPECT_TRUE(all_submitted(kA));
  const uint64_t before = link_->shared().replayed_launches.load();
  for (uint32_t k = 0; k < 50; ++k)
    for (uint32_t i = 0; i < 16; ++i) launch(kA, 0x100 + i, i);
  EXPECT_GT(link_->shared().replayed_launches.load(), before + 16 * 20) << "did not find its way back";
  link_->drain(exec::Scope::everything(), Reason::unknown_entry_point);
  EXPECT_TRUE(all_submitted(kA));
}

TEST_F(Replay, AnotherShapeIsASurprise) {
  train(kA);
  uint64_t argument = 3;
  void* params[] = {&argument};
  model::Op op;
  op.op_class = OpClass::launch, op.kind = OpKind::kernel, op.asynchronous = true;
  op.object = 0x103, op.context = context_, op.stream_info = stream(kA), op.stream = op.stream_info->handle;
  op.function_info = model::Model::get().function(reinterpret_cast<CUfunction>(0x103));
  op.launch = {{2, 1, 1}, {32, 1, 1}, 0, 0, nullptr, params, nullptr};  // grid differs
  bool made = false;
  op.arguments = &made;
  op.invoke = [](model::Op& o) { return *static_cast<bool*>(o.arguments) = true, CUDA_SUCCESS; };
  link_->on_op(op);
  EXPECT_TRUE(made) << "buffered as if it were the learned one";
  EXPECT_TRUE(all_submitted(kA));
}

TEST_F(Replay, ARefusedGraphLaunchIsDoneLaunchByLaunch) {
  train(kA);
  FakeDevice::get().graph_answer = CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 3; i < 16; ++i) EXPECT_EQ(launch(kA, 0x100 + i, i), CUDA_SUCCESS);
  link_->drain(exec::Scope::everything(), Reason::unknown_entry_point);
  EXPECT_TRUE(all_submitted(kA));
}

TEST_F(Replay, AnErrorOfHeldBackWorkReachesTheProgram) {
  train(kA);
  FakeDevice::get().launch_answer = CUDA_ERROR_LAUNCH_FAILED;
  FakeDevice::get().graph_answer = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_EQ(other(OpKind::event_record, OpClass::launch, kA), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(launch(kA, 0x900, 1), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(Replay, AFailedInstantiationLeavesLaunchesEager) {
  FakeDevice::get().instantiate_answer = CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < 300; ++k) {
    for (uint32_t i = 0; i < 16; ++i) ASSERT_EQ(launch(kA, 0x100 + i, i), CUDA_SUCCESS);
    ASSERT_TRUE(all_submitted(kA));
    if (k > 200) usleep(100);
  }
  EXPECT_EQ(FakeDevice::get().graph_launches, 0u);
  EXPECT_EQ(FakeDevice::get().live_execs, 0u);
}

TEST_F(Replay, ExecutablesGoWithTheModuleTheContextAndTheStream) {
  using exec::HandleKind;
  const std::pair<HandleKind, uint64_t> gone[] = {{HandleKind::module, 0x42},
                                                  {HandleKind::context, 0xC0},
                                                  {HandleKind::context, 0},
                                                  {HandleKind::stream, kA}};
  for (const auto& [kind, handle] : gone) {
    SetUp();
    train(kA);
    EXPECT_GT(FakeDevice::get().live_execs, 0u);
    link_->forget(kind, handle);
    EXPECT_EQ(FakeDevice::get().live_execs, 0u) << "destroyed while an executable still names it";
    EXPECT_TRUE(all_submitted(kA));
  }
  SetUp();
  train(kA);
  link_->forget(HandleKind::stream, 0x9999);  // somebody else's
  EXPECT_GT(FakeDevice::get().live_execs, 0u);
}

// Contexts come and go: their streams' places are used again.
TEST_F(Replay, PlacesOfDeadStreamsAreReused) {
  for (uint64_t k = 0; k < 5000; ++k) {
    const uint64_t s = 0x100000 + k * 0x100;
    launch(s, 0x100, 1);
    link_->forget(k % 2 ? exec::HandleKind::stream : exec::HandleKind::context, k % 2 ? s : 0);
  }
  train(kA);
}

TEST_F(Replay, MemoryIsGivenBackWhenAnAllocationFails) {
  train(kA);
  EXPECT_GT(link_->release_memory(1), 0u);
  EXPECT_EQ(FakeDevice::get().live_execs, 0u);
  EXPECT_TRUE(all_submitted(kA));
}

TEST_F(Replay, TheKillSwitchLeavesNothingBehind) {
  train(kA);
  link_->drain(exec::Scope::everything(), Reason::kill_switch);
  link_->disable();
  EXPECT_TRUE(all_submitted(kA));
  for (uint32_t i = 0; i < 200; ++i) launch(kA, 0x100 + i % 16, i);
  EXPECT_TRUE(all_submitted(kA)) << "held back after the kill switch";
}

TEST_F(Replay, AnOldBufferIsFlushedByTheSecondTick) {
  train(kA);
  link_->flush_old();
  link_->flush_old();
  EXPECT_TRUE(all_submitted(kA));
  EXPECT_FALSE(link_->holds_anything());
}

// Between the kill switch's drain and the last thread that was already under way.
TEST_F(Replay, NothingIsHeldBackAfterTheLastDrain) {
  train(kA);
  link_->drain(exec::Scope::everything(), Reason::none);
  for (uint32_t i = 3; i < 16 * 20 + 3; ++i) launch(kA, 0x100 + i % 16, i % 16);  // as expected of it
  EXPECT_TRUE(all_submitted(kA));
}

// The driver may refuse a launch whose stream's context is not the current one: it has to see it.
TEST_F(Replay, AnotherCurrentContextIsASurprise) {
  train(kA);
  const CUcontext own = context_;
  const size_t before = submitted(kA).size();
  model::StreamInfo* info = stream(kA);
  context_ = reinterpret_cast<CUcontext>(0xD0);
  info->context = own;
  uint64_t argument = 3;
  void* params[] = {&argument};
  model::Op op;
  op.op_class = OpClass::launch, op.kind = OpKind::kernel, op.asynchronous = true, op.object = 0x103;
  op.context = context_, op.stream_info = info, op.stream = info->handle;
  op.function_info = model::Model::get().function(reinterpret_cast<CUfunction>(0x103));
  op.launch = {{1, 1, 1}, {32, 1, 1}, 0, 0, nullptr, params, nullptr};
  op.invoke = [](model::Op&) { return CUDA_ERROR_INVALID_CONTEXT; };
  EXPECT_EQ(link_->on_op(op), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_GT(submitted(kA).size(), before);
  context_ = own;
}

TEST_F(Replay, StreamsWithAttributesAndGreenContextsStayEager) {
  train(kA);
  other(OpKind::stream_attribute, OpClass::attribute, kA);
  for (uint32_t k = 0; k < 2000; ++k) launch(kA, 0x100 + k % 16, k % 16);
  EXPECT_TRUE(all_submitted(kA));
  EXPECT_EQ(FakeDevice::get().live_execs, 0u);
  train(0x2000);  // others are not affected
  other(OpKind::green_context, OpClass::device, 0);
  EXPECT_TRUE(all_submitted(0x2000));
  for (uint32_t i = 0; i < 64; ++i) launch(0x2000, 0x100 + i % 16, i % 16);
  EXPECT_TRUE(all_submitted(0x2000));
}

// Nothing repeats: after a while the stream's launches need not come to the engine at all, and later they do
// again.
TEST_F(Replay, AStreamWithoutRepetitionIsLetPast) {
  exec::Chain::get().build({link_.get(), &recorder_});
  model::ThreadState& me = model::this_thread();
  me.bypass_left = 0;
  uint32_t random = 1;
  for (uint32_t k = 0; k < 10000 && me.bypass_left == 0; ++k) {
    random = random * 1664525 + 1013904223;
    launch(kA, 0x100 + (random >> 16) % 1024, k);
  }
  EXPECT_GT(me.bypass_left, 0u);
  EXPECT_TRUE(exec::takes_bypass(reinterpret_cast<uint64_t>(stream(kA)->handle)));
  EXPECT_FALSE(exec::takes_bypass(reinterpret_cast<uint64_t>(stream(0x2000)->handle)));
  me.bypass_left = 0;
  train(0x2000);  // holds something back
  me.bypass_left = 9, me.bypass_stream = kA;
  EXPECT_FALSE(exec::takes_bypass(kA)) << "the default stream's rules tie streams together";
  me.bypass_left = 0;
  train(kA);  // its grants run out
  exec::Chain::get().build({});
}

// Kernels of a communication library wait for other devices. It is known by the library the launch comes
// from.
TEST_F(Replay, LaunchesOfACommunicationLibraryStayEager) {
  void* library = dlopen(SHUNT_NCCL_CALLER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  trace::note_caller(dlsym(library, "somewhere_inside"));
  for (uint32_t k = 0; k < 400; ++k) {
    for (uint32_t i = 0; i < 16; ++i) launch(kA, 0x800 + i, i);
    if (k > 300) usleep(100);
  }
  trace::note_caller(nullptr);
  EXPECT_TRUE(all_submitted(kA));
  EXPECT_EQ(FakeDevice::get().graph_launches, 0u);
}

TEST_F(Replay, CallsInsideALibraryOrACaptureAreNotHeldBack) {
  train(kA);
  model::this_thread().inside_library = 1;
  launch(kA, 0x103, 3);
  model::this_thread().inside_library = 0;
  EXPECT_TRUE(all_submitted(kA));

  SetUp();
  train(kA);
  model::Op begin;  // anybody's capture, on any stream
  begin.kind = OpKind::capture_begin, begin.stream_info = stream(0x7000);
  model::Model::Undo undo;
  model::Model::get().after(begin, undo);
  launch(kA, 0x103, 3);
  EXPECT_TRUE(all_submitted(kA));
  for (uint32_t i = 0; i < 64; ++i) launch(kA, 0x100 + i % 16, i % 16);
  EXPECT_TRUE(all_submitted(kA));
}

}  // namespace
}  // namespace shunt::graphs::test
