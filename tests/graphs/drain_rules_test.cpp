// Every row of the drain table, from outside: what CUDA lets a call observe must have reached the driver
// before the call does. The expectations are written here from CUDA's rules, not from the table; the mutation
// test weakens each row and wants to see one of them broken.
#include <cstdio>

#include "tests/graphs/engine_fixture.h"

namespace shunt::graphs::test {
namespace {

using model::OpClass;
using model::OpKind;

enum class Sees { nothing, stream, everything };

struct Row {
  OpKind kind;
  OpClass op_class;
  Sees sees;
};
constexpr OpKind kFirst = OpKind::other;

// What a call of the kind, made on one stream, can observe or must not overtake.
Row expectation(OpKind kind) {
  switch (kind) {
    case OpKind::kernel:
    case OpKind::kernel_ex:
    case OpKind::kernel_cooperative:
    case OpKind::graph_launch:
    case OpKind::host_function:
    case OpKind::event_record:
    case OpKind::event_wait:
      return {kind, OpClass::launch, Sees::stream};
    case OpKind::copy_linear:
    case OpKind::copy_2d:
    case OpKind::copy_3d:
    case OpKind::copy_peer:
    case OpKind::copy_array:
    case OpKind::copy_batch:
    case OpKind::memset:
      return {kind, OpClass::copy, Sees::stream};
    case OpKind::alloc_async:
      return {kind, OpClass::alloc, Sees::stream};
    case OpKind::free_async:
      return {kind, OpClass::free, Sees::stream};
    case OpKind::sync_stream:
      return {kind, OpClass::sync, Sees::stream};
    case OpKind::query_stream:
      return {kind, OpClass::query, Sees::stream};
    // New objects and questions about addresses and code.
    case OpKind::query_event:
    case OpKind::alloc_linear:
    case OpKind::alloc_pitch:
    case OpKind::alloc_managed:
    case OpKind::alloc_host:
    case OpKind::event_create:
    case OpKind::stream_create:
    case OpKind::context_current:
    case OpKind::function_get:
    case OpKind::pointer_attribute:
    case OpKind::pointer_attributes:
    case OpKind::address_range:
    case OpKind::capture_query:
      return {kind, OpClass::query, Sees::nothing};
    default:
      return {kind, OpClass::unknown, Sees::everything};
  }
}

class DrainRules : public EngineTest {
 protected:
  static constexpr uint64_t kA = 0x1000, kB = 0x2000;
  // Two streams with work held back, then the call on one of them. Returns what was missing when it arrived.
  std::string missing(const Row& row) {
    SetUp();
    train(kA);
    train(kB);
    std::string text;
    bool arrived = false;
    recorder_.on_other = [&](model::Op&) {
      arrived = true;
      if (row.sees != Sees::nothing && !all_submitted(kA)) text += "own stream ";
      if (row.sees == Sees::everything && !all_submitted(kB)) text += "other stream ";
    };
    if (row.kind == OpKind::kernel || row.kind == OpKind::kernel_ex || row.kind == OpKind::graph_launch) {
      // These reach the recorder as what they are; a launch the engine can't buffer stands for them.
      const size_t before = called_[kA].size();
      const model::OpKind kind = row.kind;
      model::this_thread().inside_library = 1;
      model::Op op;
      op.op_class = row.op_class, op.kind = kind, op.asynchronous = true, op.context = context_;
      op.stream_info = stream(kA), op.stream = op.stream_info->handle;
      op.launch = {};
      op.invoke = nullptr;
      class Look final : public exec::Link {
       public:
        const char* name() const override { return "look"; }
        CUresult on_op(model::Op& o) override {
          if (o.from_engine) return real->on_op(o);
          look();
          return CUDA_SUCCESS;
        }
        exec::Link* real = nullptr;
        std::function<void()> look;
      } look;
      look.real = &recorder_;
      look.look = [&] {
        arrived = true;
        if (submitted(kA).size() < before) text += "own stream ";
      };
      link_->next = &look;
      link_->on_op(op);
      link_->next = &recorder_;
      model::this_thread().inside_library = 0;
    } else {
      other(row.kind, row.op_class, kA);
    }
    EXPECT_TRUE(arrived);
    recorder_.on_other = nullptr;
    link_->drain(exec::Scope::everything(), Reason::unknown_entry_point);
    EXPECT_TRUE(all_submitted(kA)) << "order or contents changed";
    EXPECT_TRUE(all_submitted(kB));
    return text;
  }
};

TEST_F(DrainRules, EveryCallSeesWhatItMay) {
  for (size_t k = static_cast<size_t>(kFirst); k < kOpKinds; ++k) {
    const Row row = expectation(static_cast<OpKind>(k));
    EXPECT_EQ(missing(row), "") << "kind " << k << ": " << drain_rule(row.kind).why;
  }
}

// Mutants: each row (listed or not) one step weaker. A mutant that nothing notices fails the build.
TEST_F(DrainRules, EveryRowIsNeeded) {
  int mutants = 0, killed = 0;
  for (size_t k = static_cast<size_t>(kFirst); k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    DrainRule& rule = drain_rule_for_tests(kind);
    const DrainRule original = rule;
    while (rule.scope != DrainScope::none) {
      rule.scope = rule.scope == DrainScope::all ? DrainScope::stream : DrainScope::none;
      ++mutants;
      const bool noticed = !missing(expectation(kind)).empty();
      killed += noticed;
      EXPECT_TRUE(noticed) << "kind " << k << " with scope " << static_cast<int>(rule.scope) << " survived";
    }
    rule = original;
  }
  std::printf("%d mutants of the drain table, %d killed\n", mutants, killed);
  EXPECT_GT(mutants, 60);
}

TEST_F(DrainRules, SynchronousCopiesAndUnknownStreamsDrainEverything) {
  for (const bool known : {true, false}) {
    SetUp();
    train(kA);
    train(kB);
    bool complete = false;
    recorder_.on_other = [&](model::Op&) { complete = all_submitted(kA) && all_submitted(kB); };
    other(OpKind::copy_linear, OpClass::copy, known ? kA : 0, !known);
    EXPECT_TRUE(complete) << known;
  }
}

TEST_F(DrainRules, DefaultStreamAndBlockingStreamsKeepTheirOrder) {
  constexpr uint64_t kLegacy = 1, kFree = 0x3000;
  const auto log_size = [] {
    std::lock_guard lock(FakeDevice::get().mutex);
    return FakeDevice::get().log.size();
  };
  stream(kFree, true);
  train(kA);
  launch(kLegacy, 0x500, 1);  // must not overtake the blocking stream
  EXPECT_TRUE(all_submitted(kA));
  EXPECT_EQ(FakeDevice::get().log.back().function, 0x500u);

  SetUp();
  train(kLegacy);
  launch(kA, 0x500, 1);
  EXPECT_TRUE(all_submitted(kLegacy));
  EXPECT_EQ(FakeDevice::get().log.back().function, 0x500u);

  SetUp();
  stream(kFree, true)->non_blocking = true;
  train(kLegacy);
  const size_t before = log_size();
  other(OpKind::event_record, OpClass::launch, kA);
  EXPECT_GT(log_size(), before) << "an event on a blocking stream stands for default-stream work too";
}

}  // namespace
}  // namespace shunt::graphs::test
