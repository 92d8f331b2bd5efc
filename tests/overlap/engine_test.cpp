// What the engine does around collectives: where they start, who waits, which stay, and every trap of
// research/overlap.md section 7 that needs no device.
#include <atomic>
#include <thread>

#include "tests/overlap/fixture.h"

namespace shunt::overlap::test {
namespace {

using model::Op;
using model::OpClass;
using model::OpKind;

constexpr uint64_t kEvent = 0xE0, kEvent2 = 0xE1, kLegacy = 0;

class Engine : public OverlapTest {};

TEST_F(Engine, NaiveLoopMovesAndJoinsAtTheUse) {
  warm(kX);
  const Work made = touch(kX, kBuffer);
  const Work c = collective(kX, kBuffer);
  const Work independent = touch(kX, kOther);
  const Work use = touch(kX, kBuffer);
  EXPECT_TRUE(moved(c));
  EXPECT_TRUE(before(made, c));
  EXPECT_FALSE(before(c, independent));
  EXPECT_TRUE(before(c, use));
}

TEST_F(Engine, ReusedBufferWaits) {
  warm(kX);
  const Work a = collective(kX, kBuffer);
  const Work rewrite = touch(kX, kBuffer + 4092, 4);
  EXPECT_TRUE(before(a, rewrite));
  const Work b = collective(kX, kBuffer);
  EXPECT_TRUE(before(rewrite, b));
}

TEST_F(Engine, StartsBehindTheLastConflict) {
  warm(kX);
  collective(kX, kBuffer + 0x1'0000);  // a place
  const Work made = touch(kX, kBuffer);
  collective(kX, kBuffer + 0x2'0000);  // another place
  const Work late = touch(kX, kOther);
  const Work c = collective(kX, kBuffer);
  EXPECT_TRUE(before(made, c));
  EXPECT_FALSE(before(late, c));
}

TEST_F(Engine, CommunicationKeepsItsOrder) {
  warm(kX), warm(kX, kComm2);
  const Work a = collective(kX, kBuffer), b = collective(kX, kOther, 4096, kComm2);
  EXPECT_TRUE(moved(a) && moved(b));
  EXPECT_TRUE(before(a, b));
  // One that stays on the stream comes behind both.
  const Work stays = collective(kX, kHost);
  EXPECT_FALSE(moved(stays));
  EXPECT_TRUE(before(a, stays) && before(b, stays));
  // And what moves later comes behind that one, whatever place it could start from.
  EXPECT_TRUE(before(stays, collective(kX, kBuffer + 0x3'0000)));
}

TEST_F(Engine, CommunicationKeepsItsOrderAcrossStreams) {
  warm(kX), warm(kY);
  const Work a = collective(kX, kBuffer);
  record(kEvent, kX);
  wait(kY, kEvent);
  const Work b = collective(kY, kOther);
  EXPECT_TRUE(moved(a) && moved(b));
  EXPECT_TRUE(before(a, b));
}

// A foreign collective that the stream itself has waited for is behind it; so must be what starts early.
TEST_F(Engine, EarlyStartDoesNotOvertakeAJoinedForeignCollective) {
  warm(kX), warm(kY);
  collective(kX, kBuffer + 0x1'0000);  // a place on X
  const Work y = collective(kY, kOther);
  record(kEvent, kY);
  wait(kX, kEvent);
  touch(kX, kOther);  // joins it
  EXPECT_TRUE(before(y, collective(kX, kBuffer + 0x2'0000)));
}

TEST_F(Engine, UnrelatedStreamsStayUnrelated) {
  warm(kX), warm(kY);
  const Work a = collective(kX, kBuffer);
  const Work b = collective(kY, kBuffer + 0x1'0000);
  const Work k = opaque(kY, kOther);
  EXPECT_FALSE(before(a, b));
  EXPECT_FALSE(before(a, k));  // unknown code waits for its own stream's collectives only
  EXPECT_TRUE(before(b, k));
}

TEST_F(Engine, EventsStandForWhatIsPending) {
  warm(kX);
  const Work made = touch(kX, kBuffer);
  const Work c = collective(kX, kBuffer);
  record(kEvent, kX);
  EXPECT_TRUE(d().events[kEvent].count(c));
  EXPECT_TRUE(d().events[kEvent].count(made));
  EXPECT_FALSE(stream_after(kX, c));  // the stream itself goes on
  // A stream that waits for it has the kernels behind it, and the collective when it matters.
  wait(kY, kEvent);
  const Work free_of_it = touch(kY, kOther);
  EXPECT_TRUE(before(made, free_of_it));
  EXPECT_FALSE(before(c, free_of_it));
  EXPECT_TRUE(before(c, touch(kY, kBuffer)));
}

TEST_F(Engine, EventOfAnInheritedCollectiveStandsForItToo) {
  warm(kX), warm(kY);
  const Work c = collective(kX, kBuffer);
  record(kEvent, kX);
  wait(kY, kEvent);
  record(kEvent2, kY);
  EXPECT_TRUE(d().events[kEvent2].count(c));
  // Back on the first stream once more.
  wait(kX, kEvent2);
  EXPECT_TRUE(before(c, touch(kX, kBuffer)));
}

TEST_F(Engine, EventRecordedAgainStandsForTheNewPlace) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  record(kEvent, kX);
  touch(kX, kBuffer);  // joins
  const Work later = touch(kX, kOther);
  record(kEvent, kX);
  wait(kY, kEvent);
  const Work y = touch(kY, kOther);
  EXPECT_TRUE(before(later, y));
  EXPECT_TRUE(before(c, y));
}

TEST_F(Engine, EventsThatAGraphMayRecordAreWaitedForPlainly) {
  warm(kX);
  collective(kX, kBuffer);
  record(kEvent, kX);
  call(OpKind::graph_launch, OpClass::launch, kY, [](Op& op) { op.object = 0x99; });
  {
    // The graph records it elsewhere.
    std::lock_guard lock(d().mutex);
    d().events[kEvent] = {999};
  }
  wait(kY, kEvent);
  EXPECT_TRUE(stream_after(kY, 999));
}

TEST_F(Engine, DestroyedEventIsForgotten) {
  warm(kX);
  collective(kX, kBuffer);
  record(kEvent, kX);
  call(OpKind::event_destroy, OpClass::free, 0, [](Op& op) { op.object = kEvent; });
  {
    std::lock_guard lock(d().mutex);
    d().events[kEvent] = {888};  // the handle again, somebody else's
  }
  wait(kY, kEvent);
  EXPECT_TRUE(stream_after(kY, 888));
}

TEST_F(Engine, RecordFallsBackToJoining) {
  for (int refused = 0; refused < 5; ++refused) {
    SetUp();
    warm(kX);
    const Work c = collective(kX, kBuffer);
    if (refused < 2) d().refuse_events = refused + 1;
    if (refused == 2) d().refuse_records = 1;
    if (refused > 2) d().refuse_waits = refused - 2;
    record(kEvent, kX);
    d().refuse_events = d().refuse_records = d().refuse_waits = 0;
    EXPECT_TRUE(d().events[kEvent].count(c) || d().host.count(c)) << refused;
    wait(kY, kEvent);
    EXPECT_TRUE(before(c, touch(kY, kBuffer))) << refused;
  }
}

// ---- the default streams ----

TEST_F(Engine, LegacyStreamWaitsForBlockingStreams) {
  stream(kX, false);
  warm(kX);
  const Work c = collective(kX, kBuffer);
  ASSERT_TRUE(moved(c));
  EXPECT_FALSE(before(c, touch(kLegacy, kOther)));
  EXPECT_TRUE(before(c, touch(kLegacy, kBuffer)));
}

TEST_F(Engine, BlockingStreamsWaitForTheLegacyStream) {
  stream(kX, false);
  warm(kLegacy);
  const Work c = collective(kLegacy, kBuffer);
  ASSERT_TRUE(moved(c));
  EXPECT_FALSE(before(c, touch(kX, kOther)));
  EXPECT_TRUE(before(c, touch(kX, kBuffer)));
  EXPECT_TRUE(before(c, touch(kLegacy, kBuffer)));
}

TEST_F(Engine, NonBlockingStreamsIgnoreTheLegacyStream) {
  stream(kX);
  warm(kLegacy);
  const Work c = collective(kLegacy, kBuffer);
  EXPECT_FALSE(before(c, touch(kX, kBuffer)));
}

TEST_F(Engine, AStreamNobodySawBeingMadeIsWhatTheDriverSays) {
  warm(kLegacy);
  const Work c = collective(kLegacy, kBuffer);
  EXPECT_FALSE(before(c, touch(kUnseen, kBuffer)));
}

// The default stream's work is in front of a blocking stream's collective, though no call of that stream
// shows it.
TEST_F(Engine, BlockingStreamStartsBehindTheLegacyStream) {
  stream(kX, false);
  warm(kX);
  collective(kX, kBuffer + 0x1'0000);
  const Work legacy = touch(kLegacy, kBuffer);
  EXPECT_TRUE(before(legacy, collective(kX, kBuffer)));
  warm(kLegacy);
  const Work x = touch(kX, kOther);
  EXPECT_TRUE(before(x, collective(kLegacy, kOther)));
}

TEST_F(Engine, CollectivesAcrossTheDefaultStreamKeepTheirOrder) {
  stream(kX, false);
  warm(kX), warm(kLegacy);
  const Work a = collective(kX, kBuffer);
  const Work b = collective(kLegacy, kOther);
  const Work c = collective(kX, kBuffer + 0x1'0000);
  EXPECT_TRUE(before(a, b));
  EXPECT_TRUE(before(b, c));
}

TEST_F(Engine, SynchronousCopiesAreWorkOfTheDefaultStream) {
  stream(kX, false);
  warm(kX);
  const Work c = collective(kX, kBuffer);
  const Work copy = call(OpKind::copy_linear, OpClass::copy, kLegacy, [](Op& op) {
    op.asynchronous = false;
    op.add_range(kHost, 64, model::Access::write);
    op.add_range(kOther, 64, model::Access::read);
  });
  EXPECT_TRUE(before(c, copy));
}

TEST_F(Engine, LookingAtABlockingStreamDoesNotWaitForTheLegacyOne) {
  stream(kX, false);
  warm(kLegacy);
  touch(kX, kOther);
  const Work c = collective(kLegacy, kBuffer);
  call(OpKind::query_stream, OpClass::query, kX);
  EXPECT_FALSE(stream_after(kX, c));
  call(OpKind::query_stream, OpClass::query, kLegacy);
  EXPECT_TRUE(stream_after(1, c));
}

// ---- what others see ----

TEST_F(Engine, HostVisibleWorkComesBehindEverything) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  EXPECT_TRUE(before(c, touch(kX, kHost))) << "a kernel that sets a flag in host memory";
  const Work c2 = collective(kX, kBuffer);
  const Work copy = call(OpKind::copy_linear, OpClass::copy, kX, [](Op& op) {
    op.add_range(kHost, 64, model::Access::write);
    op.add_range(kOther, 64, model::Access::read);
  });
  EXPECT_TRUE(before(c2, copy)) << "a copy to the host";
  const Work c3 = collective(kX, kBuffer);
  const Work in = call(OpKind::copy_linear, OpClass::copy, kX, [](Op& op) {
    op.add_range(kOther, 64, model::Access::write);
    op.add_range(kHost, 64, model::Access::read);
  });
  EXPECT_FALSE(before(c3, in)) << "a copy from the host beside the collective";
}

TEST_F(Engine, UnknownCodeAndAttributesAreBarriers) {
  warm(kX);
  Work c = collective(kX, kBuffer);
  EXPECT_TRUE(before(c, opaque(kX, kOther)));
  for (const auto id : {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                        CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT}) {
    c = collective(kX, kBuffer);
    const Work w = call(OpKind::kernel_ex, OpClass::launch, kX, [&](Op& op) {
      static thread_local uint64_t p;
      static thread_local uint32_t n;
      static thread_local void* params[2];
      static thread_local CUlaunchAttribute attribute;
      p = kOther, n = 4;
      params[0] = &p, params[1] = &n;
      attribute = {};
      attribute.id = id;
      op.object = 0xF1;
      op.launch = {{1, 1, 1}, {4, 1, 1}, 0, 1, &attribute, params, nullptr};
    });
    EXPECT_TRUE(before(c, w)) << id;
  }
  // Parameters in a buffer of the program's making; a function nobody saw.
  c = collective(kX, kBuffer);
  EXPECT_TRUE(before(c, call(OpKind::kernel, OpClass::launch, kX, [&](Op& op) {
                       op.object = 0xF1;
                       static void* extra[1] = {nullptr};
                       op.launch = {{1, 1, 1}, {4, 1, 1}, 0, 0, nullptr, nullptr, extra};
                     })));
  c = collective(kX, kBuffer);
  EXPECT_TRUE(before(c, call(OpKind::kernel, OpClass::launch, kX, [&](Op& op) { op.object = 0xFF; })));
}

TEST_F(Engine, ADeviceScalarIsReadByTheCollective) {
  link_->collectives().communicators().operator_created(kComm, 5, kOther, 4);
  auto scaled = [&](nccl::Operator op_number) {
    Operation o;
    o.function = nccl::Function::all_reduce;
    o.send = o.receive = reinterpret_cast<void*>(kBuffer);
    o.count = 1024, o.type = 7, o.op = op_number, o.comm = kComm, o.stream = handle(kX);
    Work made = 0;
    auto real = [&](CUstream on) -> nccl::Result {
      made = d().submit(on);
      if (d().own_streams.count(reinterpret_cast<uint64_t>(on))) on_own_.insert(made);
      return 0;
    };
    link_->collectives().call(o, real);
    return made;
  };
  stream(kX);
  warm(kX);
  const Work c = scaled(5);
  ASSERT_TRUE(moved(c));
  EXPECT_FALSE(before(c, touch(kX, kOther + 64, 4)));
  EXPECT_TRUE(before(c, touch(kX, kOther, 4)));
  EXPECT_FALSE(moved(scaled(6))) << "an operator nobody saw being made";
}

// ---- what stays ----

TEST_F(Engine, FirstUsesOfEachKindStay) {
  EXPECT_FALSE(moved(collective(kX, kBuffer)));
  EXPECT_FALSE(moved(collective(kX, kBuffer)));
  EXPECT_TRUE(moved(collective(kX, kBuffer)));
  EXPECT_FALSE(moved(collective(kX, kBuffer, 65536))) << "another size";
  EXPECT_FALSE(moved(collective(kX, kBuffer, 4096, kComm2))) << "another communicator";
}

TEST_F(Engine, OtherMemoryStays) {
  warm(kX);
  EXPECT_FALSE(moved(collective(kX, kHost)));
  allocate(0x5000'0000, kBytes, OpKind::alloc_managed);
  EXPECT_FALSE(moved(collective(kX, 0x5000'0000)));
  allocate(0x5100'0000, kBytes, OpKind::map_vmm);
  EXPECT_FALSE(moved(collective(kX, 0x5100'0000))) << "may have a second address";
  EXPECT_FALSE(moved(collective(kX, 0x4000'0000))) << "unknown memory";
  EXPECT_FALSE(moved(collective(kX, kBuffer + kBytes - 64))) << "beyond the block";
  allocate(0x5200'0000, kBytes, OpKind::alloc_async);
  EXPECT_TRUE(moved(collective(kX, 0x5200'0000)));
}

TEST_F(Engine, UnknownAndNonBlockingCommunicatorsStay) {
  auto& comms = link_->collectives().communicators();
  const auto other = reinterpret_cast<nccl::Comm>(0xCC7), slow = reinterpret_cast<nccl::Comm>(0xCC8);
  comms.created(slow, false, kContext);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(moved(collective(kX, kBuffer, 4096, other)));
    EXPECT_FALSE(moved(collective(kX, kBuffer, 4096, slow)));
  }
}

TEST_F(Engine, NothingMovesDuringACapture) {
  warm(kX), warm(kY);
  const Work pending = collective(kX, kBuffer);
  call(OpKind::capture_begin, OpClass::capture, kY);
  EXPECT_FALSE(moved(collective(kX, kBuffer + 0x1'0000)));
  const Work captured = touch(kY, kBuffer);
  EXPECT_FALSE(before(pending, captured));
  call(OpKind::capture_end, OpClass::capture, kY);
  EXPECT_TRUE(moved(collective(kX, kBuffer + 0x1'0000)));
}

TEST_F(Engine, StreamWithAttributesStays) {
  warm(kX);
  call(OpKind::stream_attribute, OpClass::attribute, kX);
  EXPECT_FALSE(moved(collective(kX, kBuffer)));
}

TEST_F(Engine, OneConnectionStays) {
  start({.one_connection = true});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(moved(collective(kX, kBuffer)));
}

TEST_F(Engine, ShadowChangesNothing) {
  start({.shadow = true});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(moved(collective(kX, kBuffer)));
  const Work c = collective(kX, kBuffer);
  EXPECT_TRUE(before(c, touch(kX, kOther)));
  EXPECT_TRUE(d().own_streams.empty());
}

TEST_F(Engine, NothingToGainStaysAndIsTriedAgain) {
  warm(kX);
  int moves = 0, stays = 0;
  for (int i = 0; i < 40; ++i) {
    const Work c = collective(kX, kBuffer);
    moved(c) ? moves++ : stays++;
    EXPECT_TRUE(before(c, touch(kX, kBuffer)));
  }
  EXPECT_EQ(moves, static_cast<int>(Profit::kInARow));
  EXPECT_GT(stays, 0);
  // Now something follows each of them: after the pause it moves again, for good.
  moves = 0;
  for (int i = 0; i < 200; ++i) {
    const Work c = collective(kX, kBuffer);
    touch(kX, kOther);
    touch(kX, kBuffer);
    moves += moved(c);
  }
  EXPECT_GT(moves, 160);
}

TEST_F(Engine, AnEarlierStartIsAGainToo) {
  warm(kX);
  int moves = 0;
  for (int i = 0; i < 40; ++i) {
    collective(kX, kBuffer + 0x1'0000);
    touch(kX, kOther);
    const Work c = collective(kX, kBuffer, 65536);
    moves += moved(c);
    touch(kX, kBuffer);
  }
  // All but the first uses and the periods that a trial times without.
  EXPECT_EQ(moves, 38 - static_cast<int>(Trials::kTimes + 1));
}

// The device's clock as the test sets it: a period takes so long with the collective moved, so long without.
TEST_F(Engine, WhatLosesByTheDevicesClockStays) {
  for (const bool loses : {true, false}) {
    SetUp();
    d().period[true] = loses ? 11.0f : 9.0f, d().period[false] = 10.0f;
    stream(kX);
    warm(kX);
    int moves = 0, stays = 0;
    for (int i = 0; i < 200; ++i) {
      const Work c = collective(kX, kBuffer);
      touch(kX, kOther);
      touch(kX, kBuffer);
      d().now += d().period[moved(c)];
      if (i > 40) moved(c) ? moves++ : stays++;
    }
    if (loses)
      EXPECT_GT(stays, 4 * moves) << moves;
    else
      EXPECT_GT(moves, 20 * stays) << stays;
  }
}

TEST_F(Engine, ATrialWaitsUntilTheDeviceIsThere) {
  d().period[true] = 11.0f, d().period[false] = 10.0f;
  d().not_ready = 30;
  warm(kX);
  int i = 0, last_move = 0;
  for (; i < 80; ++i) {
    const Work c = collective(kX, kBuffer);
    touch(kX, kOther);
    touch(kX, kBuffer);
    d().now += d().period[moved(c)];
    if (moved(c)) last_move = i;
  }
  EXPECT_EQ(d().not_ready, 0);
  EXPECT_GT(last_move, 20);  // it moved on while the answer was out
  EXPECT_LT(last_move, 60);
}

// ---- failures ----

TEST_F(Engine, RefusedHelpersLeaveTheCollectiveWhereItIs) {
  d().refuse_streams = -1;
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(moved(collective(kX, kBuffer)));
  SetUp();
  warm(kX);
  d().refuse_events = -1;
  EXPECT_FALSE(moved(collective(kX, kBuffer)));
  SetUp();
  warm(kX);
  d().refuse_records = 1;
  const Work made = touch(kX, kBuffer);
  Work c = collective(kX, kBuffer);
  EXPECT_FALSE(moved(c));
  EXPECT_TRUE(before(made, c));
  d().refuse_waits = 1;
  c = collective(kX, kBuffer);
  EXPECT_FALSE(moved(c));
}

TEST_F(Engine, AJoinThatIsRefusedIsWaitedForByTheHost) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  d().refuse_waits = 1;
  EXPECT_TRUE(before(c, touch(kX, kBuffer)));
  EXPECT_EQ(d().host_waits, 1u);
}

TEST_F(Engine, AnEndThatCannotBeRecordedIsWaitedForByTheHost) {
  warm(kX);
  inside_nccl_ = [] { d().refuse_records = 1; };
  const Work c = collective(kX, kBuffer);
  ASSERT_TRUE(moved(c));
  EXPECT_TRUE(before(c, touch(kX, kBuffer)));
}

TEST_F(Engine, AnErrorOfNcclEndsTheCommunicatorsMoves) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  nccl_answer_ = 5;
  collective(kX, kOther);
  nccl_answer_ = 0;
  EXPECT_TRUE(stream_after(kX, c));
  EXPECT_FALSE(moved(collective(kX, kBuffer)));
}

TEST_F(Engine, AbortWaitsForNobody) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  std::thread stuck;
  std::atomic<bool> aborted{false};
  // A thread is inside NCCL, on the same stream, and comes out only by the abort.
  inside_nccl_ = [&] {
    std::thread([&] {
      auto real = []() -> nccl::Result { return 0; };
      link_->collectives().ends(kComm, true, real);
      aborted = true;
    }).join();
  };
  collective(kX, kOther);
  inside_nccl_ = nullptr;
  EXPECT_TRUE(aborted);
  EXPECT_FALSE(moved(collective(kX, kBuffer)));
  EXPECT_TRUE(before(c, touch(kX, kBuffer)));
}

TEST_F(Engine, DestroyJoinsFirst) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  bool joined = false;
  auto real = [&]() -> nccl::Result {
    joined = stream_after(kX, c);
    return 0;
  };
  link_->collectives().ends(kComm, false, real);
  EXPECT_TRUE(joined);
}

TEST_F(Engine, KillSwitchLeavesNothingPending) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  exec::Chain::get().kill("test");
  EXPECT_TRUE(stream_after(kX, c));
}

TEST_F(Engine, ExitWithWorkPendingWaitsForNothing) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  exec::Chain::get().drain(exec::Scope::everything(), Reason::none);
  EXPECT_FALSE(stream_after(kX, c));
  EXPECT_EQ(d().host_waits, 0u);
}

TEST_F(Engine, UnknownEntryPointsComeBehindEverything) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  exec::Chain::get().drain(exec::Scope::everything(), Reason::unknown_entry_point);
  EXPECT_TRUE(stream_after(kX, c));
}

TEST_F(Engine, CallsOfNcclItselfPass) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  model::this_thread().inside_library = 1;
  const Work own = touch(kX, kBuffer);
  exec::Chain::get().drain(exec::Scope::everything(), Reason::unknown_entry_point);
  model::this_thread().inside_library = 0;
  EXPECT_FALSE(before(c, own));
  EXPECT_FALSE(stream_after(kX, c));
}

TEST_F(Engine, MoreThanTheLimitJoins) {
  warm(kX);
  std::vector<Work> all;
  for (size_t i = 0; i < StreamState::kMostPending + 4; ++i)
    all.push_back(collective(kX, kBuffer + 4096 * (i % 64)));
  EXPECT_TRUE(stream_after(kX, all[0]));
  EXPECT_TRUE(before(all.back(), opaque(kX, kOther)));
}

TEST_F(Engine, AContextTakesItsEventsAlong) {
  warm(kX);
  collective(kX, kBuffer);
  record(kEvent, kX);
  touch(kX, kBuffer);
  call(OpKind::primary_reset, OpClass::device, 0, [](Op& op) { op.object = 0; });
  // What was made before is gone; the driver must not see it again.
  const uint64_t floor = d().next_handle;
  d().oldest_event = floor;
  stream(kX);
  warm(kX);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(moved(collective(kX, kBuffer)));
    record(kEvent, kX);
    touch(kX, kOther);
    touch(kX, kBuffer);
  }
  EXPECT_EQ(d().stale_events, 0u);
}

TEST_F(Engine, NothingLeaks) {
  warm(kX);
  for (int i = 0; i < 300; ++i) {
    collective(kX, kBuffer);
    record(kEvent, kX);
    record(kEvent2, kX);
    wait(kY, kEvent);
    touch(kY, kBuffer);
    touch(kX, kOther);
    touch(kX, kBuffer);
  }
  EXPECT_GT(on_own_.size(), 200u);
  EXPECT_LT(link_->shared().pending.made(), 16u);
  EXPECT_LT(d().next_handle - first_handle_, 16 * 200u) << "events";
}

TEST_F(Engine, StreamsTakeTheirCompanionsAlong) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  EXPECT_EQ(d().live_own_streams.size(), 2u);
  call(OpKind::stream_destroy, OpClass::free, kX, [](Op& op) { op.object = kX; });
  EXPECT_TRUE(stream_after(kX, c));
  EXPECT_EQ(d().live_own_streams.size(), 0u);
  // The handle again: a new stream with a companion of its own.
  stream(kX);
  EXPECT_TRUE(moved(collective(kX, kBuffer)));
  EXPECT_EQ(d().live_own_streams.size(), 2u);
}

TEST_F(Engine, ALongLogIsGivenUp) {
  warm(kX);
  collective(kX, kBuffer + 0x1'0000);
  Work last = 0;
  for (size_t i = 0; i < StreamState::kMostLogged + 8; ++i) last = touch(kX, kOther);
  EXPECT_TRUE(before(last, collective(kX, kOther)));
  EXPECT_TRUE(before(last, touch(kX, kOther)));
}

// ---- groups ----

class Groups : public OverlapTest {
 protected:
  // Members as (stream, buffer); returns the stream each was given.
  std::vector<CUstream> group(const std::vector<std::pair<uint64_t, uint64_t>>& members,
                              nccl::Result answer = 0) {
    std::vector<CUstream> given;
    auto start = []() -> nccl::Result { return 0; };
    link_->collectives().group_start(start);
    for (const auto& [s, buffer] : members) {
      stream(s);
      Operation o;
      o.function = nccl::Function::send;
      o.send = reinterpret_cast<void*>(buffer);
      o.receive = nullptr;
      o.count = 1024, o.type = 7, o.comm = kComm, o.stream = handle(s), o.root = 1;
      auto real = [&](CUstream on) -> nccl::Result {
        given.push_back(on);
        return 0;
      };
      EXPECT_EQ(link_->collectives().call(o, real), 0);
    }
    // NCCL enqueues everything on the first stream, behind and in front of all of them.
    auto end = [&]() -> nccl::Result {
      if (answer) return answer;
      std::lock_guard lock(d().mutex);
      WorkSet all;
      for (CUstream g : given) all.insert(d().streams[d().key(g)].begin(), d().streams[d().key(g)].end());
      d().streams[d().key(given[0])] = all;
      work_ = d().submit(given[0]);
      all.insert(work_);
      for (CUstream g : given) d().streams[d().key(g)].insert(all.begin(), all.end());
      return 0;
    };
    EXPECT_EQ(link_->collectives().group_end(end, false), answer);
    return given;
  }
  Work work_ = 0;
};

TEST_F(Groups, MoveAsAWhole) {
  for (int i = 0; i < 2; ++i)
    for (CUstream s : group({{kX, kBuffer}})) EXPECT_EQ(s, handle(kX));
  const Work made = touch(kX, kBuffer);
  const auto given = group({{kX, kBuffer}, {kX, kOther}, {kX, kHost}});
  ASSERT_EQ(given.size(), 3u);
  for (CUstream s : given) EXPECT_TRUE(d().own_streams.count(reinterpret_cast<uint64_t>(s)));
  EXPECT_TRUE(before(made, work_));
  // One of them is memory the host sees: joined at once.
  EXPECT_TRUE(stream_after(kX, work_));
}

TEST_F(Groups, AreJoinedWhereAnyMemberMatters) {
  for (int i = 0; i < 2; ++i) group({{kX, kBuffer}});
  group({{kX, kBuffer}, {kX, kOther}});
  EXPECT_FALSE(before(work_, touch(kX, kOther + 0x1'0000)));
  // A send only reads.
  const Work reads = call(OpKind::copy_linear, OpClass::copy, kX, [](Op& op) {
    op.add_range(kBuffer + 0x2'0000, 64, model::Access::write);
    op.add_range(kOther, 64, model::Access::read);
  });
  EXPECT_FALSE(before(work_, reads));
  EXPECT_TRUE(before(work_, touch(kX, kOther)));
}

TEST_F(Groups, ForksAreMadeAtTheEnd) {
  for (int i = 0; i < 2; ++i) group({{kX, kBuffer}});
  auto none = []() -> nccl::Result { return 0; };
  link_->collectives().group_start(none);
  Operation o;
  o.function = nccl::Function::send;
  o.send = reinterpret_cast<void*>(kBuffer);
  o.count = 1024, o.type = 7, o.comm = kComm, o.stream = handle(kX);
  CUstream on = nullptr;
  auto real = [&](CUstream s) -> nccl::Result {
    on = s;
    return 0;
  };
  link_->collectives().call(o, real);
  const Work between = touch(kX, kBuffer);  // after the call, before the group's end: natively in front of it
  Work work = 0;
  auto end = [&]() -> nccl::Result {
    work = d().submit(on);
    return 0;
  };
  link_->collectives().group_end(end, false);
  EXPECT_TRUE(before(between, work));
}

TEST_F(Groups, OfSeveralStreamsSitOnEachOfThem) {
  for (int i = 0; i < 2; ++i) group({{kX, kBuffer}});
  for (int i = 0; i < 2; ++i) group({{kY, kBuffer}});
  const Work x = touch(kX, kBuffer), y = touch(kY, kOther);
  group({{kX, kBuffer}, {kY, kOther}});
  EXPECT_TRUE(before(x, work_) && before(y, work_));
  EXPECT_TRUE(before(work_, touch(kX, kOther)));
  EXPECT_TRUE(before(work_, touch(kY, kBuffer)));
}

TEST_F(Groups, TakeAStreamAlongThatNeverMovedAnything) {
  for (int i = 0; i < 2; ++i) group({{kX, kBuffer}});
  const Work y = touch(kY, kOther);
  for (CUstream s : group({{kX, kBuffer}, {kY, kOther}}))
    EXPECT_TRUE(d().own_streams.count(reinterpret_cast<uint64_t>(s)));
  EXPECT_TRUE(before(y, work_));
  EXPECT_TRUE(before(work_, touch(kY, kOther)));
}

TEST_F(Groups, ThatFailAreJoined) {
  for (int i = 0; i < 2; ++i) group({{kX, kBuffer}});
  group({{kX, kBuffer}}, 5);
  for (CUstream s : group({{kX, kBuffer}})) EXPECT_EQ(s, handle(kX));
}

TEST_F(Groups, ThatStayComeBehindWhatIsPending) {
  warm(kX);
  const Work c = collective(kX, kBuffer);
  for (CUstream s : group({{kX, kHost}, {kX, kBuffer + 0x3'0000}})) EXPECT_EQ(s, handle(kX));
  EXPECT_TRUE(before(c, work_));
  EXPECT_TRUE(before(work_, collective(kX, kBuffer + 0x1'0000)));
}

// ---- several threads ----

TEST_F(Engine, ACallThatDependsOnACollectiveBeingIssuedWaits) {
  warm(kX);
  std::thread other;
  std::atomic<Work> use{0}, free_of_it{0};
  inside_nccl_ = [&] {
    other = std::thread([&] {
      free_of_it = touch(kX, kOther);
      use = touch(kX, kBuffer);
    });
    while (!free_of_it) std::this_thread::yield();
    for (int i = 0; i < 200; ++i) std::this_thread::yield();
    EXPECT_EQ(use, 0) << "overtook the collective that another thread is issuing";
  };
  const Work c = collective(kX, kBuffer);
  inside_nccl_ = nullptr;
  other.join();
  EXPECT_TRUE(before(c, use));
}

// A launch that found the stream idle has not reached the driver yet: the collective's place is behind it.
TEST_F(Engine, ACollectiveWaitsForCallsOnTheirWay) {
  warm(kX);
  std::atomic<bool> there{false}, go{false};
  inside_driver_ = [&] {
    there = true;
    while (!go) std::this_thread::yield();
  };
  std::atomic<Work> slow{0}, c{0};
  std::thread launching([&] { slow = touch(kX, kBuffer); });
  while (!there) std::this_thread::yield();
  std::thread communicating([&] { c = collective(kX, kBuffer); });
  for (int i = 0; i < 200; ++i) std::this_thread::yield();
  go = true;
  launching.join();
  communicating.join();
  EXPECT_TRUE(moved(c));
  EXPECT_TRUE(before(slow, c));
}

TEST_F(Engine, LookingDoesNotWaitForACollectiveBeingIssued) {
  warm(kX);
  inside_nccl_ = [&] {
    std::thread([&] {
      call(OpKind::query_stream, OpClass::query, kX);
      record(kEvent, kX);
      call(OpKind::sync_stream, OpClass::sync, kX);
    }).join();
  };
  const Work c = collective(kX, kBuffer);
  inside_nccl_ = nullptr;
  EXPECT_FALSE(d().events[kEvent].count(c));
  EXPECT_TRUE(before(c, touch(kX, kBuffer)));
}

TEST_F(Engine, ManyThreadsOnOneStream) {
  warm(kX);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<int> made{0};
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      while (!stop) {
        touch(kX, kOther + 4096 * static_cast<uint64_t>(t));
        made++;
      }
    });
  while (made == 0) std::this_thread::yield();
  for (int i = 0; i < 300; ++i) {
    const Work w = touch(kX, kBuffer);
    const Work c = collective(kX, kBuffer);
    const Work use = touch(kX, kBuffer);
    std::lock_guard lock(d().mutex);
    ASSERT_TRUE(d().before[c].count(w));
    ASSERT_TRUE(d().before[use].count(c));
    for (auto& [s, of] : d().streams) of = {*of.rbegin()};  // keep the sets small
    d().events.clear();
  }
  stop = true;
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace shunt::overlap::test
