// Every row of the join table, from outside. For each kind of call: a collective is pending on its stream and
// on another one; what CUDA lets the call see or disturb must come first, and nothing that CUDA leaves
// unordered may be ordered by it. And the other way round: a collective that comes later may not start before
// the call where that matters. The expectations are written here from CUDA's rules, not from the table; the
// mutation test weakens each row and wants to see one of them broken.
#include <cstdio>

#include "tests/overlap/fixture.h"

namespace shunt::overlap::test {
namespace {

using model::Op;
using model::OpClass;
using model::OpKind;

enum class Sees {
  nothing,     // no memory, no order
  touching,    // what its memory conflicts with
  stream,      // everything before it on its stream
  everything,  // nobody knows
};

struct Row {
  OpKind kind;
  OpClass op_class;
  Sees sees;
  bool works;  // device work that a later collective on the same memory must follow
};

// Calls that name no stream.
bool names_stream(OpKind kind) {
  switch (kind) {
    case OpKind::sync_event:
    case OpKind::sync_context:
    case OpKind::query_event:
    case OpKind::alloc_linear:
    case OpKind::alloc_pitch:
    case OpKind::alloc_managed:
    case OpKind::alloc_host:
    case OpKind::alloc_pool:
    case OpKind::alloc_vmm:
    case OpKind::register_host:
    case OpKind::map_vmm:
    case OpKind::free_linear:
    case OpKind::free_host:
    case OpKind::free_vmm:
    case OpKind::unregister_host:
    case OpKind::unmap_vmm:
    case OpKind::stream_create:
    case OpKind::event_create:
    case OpKind::event_destroy:
    case OpKind::context_create:
    case OpKind::context_destroy:
    case OpKind::context_current:
    case OpKind::green_context:
    case OpKind::primary_retain:
    case OpKind::primary_release:
    case OpKind::primary_reset:
    case OpKind::module_load:
    case OpKind::module_unload:
    case OpKind::function_get:
    case OpKind::pointer_attribute:
    case OpKind::pointer_attributes:
    case OpKind::address_range:
      return false;
    default:
      return true;
  }
}

Row expectation(OpKind kind) {
  switch (kind) {
    case OpKind::kernel:
    case OpKind::kernel_ex:
      return {kind, OpClass::launch, Sees::touching, true};
    case OpKind::copy_linear:
    case OpKind::memset:
      return {kind, OpClass::copy, Sees::touching, true};
    case OpKind::free_async:
      return {kind, OpClass::free, Sees::touching, true};
    case OpKind::alloc_async:
      return {kind, OpClass::alloc, Sees::nothing, true};
    case OpKind::kernel_cooperative:
    case OpKind::graph_launch:
    case OpKind::host_function:
    case OpKind::stream_memop:
      return {kind, OpClass::launch, Sees::stream, true};
    case OpKind::copy_2d:
    case OpKind::copy_3d:
    case OpKind::copy_peer:
    case OpKind::copy_array:
    case OpKind::copy_batch:
    case OpKind::prefetch:
      return {kind, OpClass::copy, Sees::stream, true};
    case OpKind::event_record:
      return {kind, OpClass::launch, Sees::stream, false};
    case OpKind::event_wait:
      return {kind, OpClass::launch, Sees::nothing, true};
    case OpKind::sync_stream:
      return {kind, OpClass::sync, Sees::stream, false};
    case OpKind::query_stream:
      return {kind, OpClass::query, Sees::stream, false};
    case OpKind::stream_destroy:
      return {kind, OpClass::free, Sees::stream, false};
    case OpKind::capture_begin:
      return {kind, OpClass::capture, Sees::stream, true};
    case OpKind::free_linear:
    case OpKind::free_host:
    case OpKind::unregister_host:
    case OpKind::unmap_vmm:
    case OpKind::free_vmm:
      return {kind, OpClass::free, Sees::touching, false};
    case OpKind::sync_event:
    case OpKind::query_event:
    case OpKind::capture_end:
    case OpKind::capture_query:
    case OpKind::alloc_linear:
    case OpKind::alloc_pitch:
    case OpKind::alloc_managed:
    case OpKind::alloc_host:
    case OpKind::alloc_vmm:
    case OpKind::event_create:
    case OpKind::event_destroy:
    case OpKind::stream_create:
    case OpKind::context_current:
    case OpKind::module_load:
    case OpKind::function_get:
    case OpKind::pointer_attribute:
    case OpKind::pointer_attributes:
    case OpKind::address_range:
      return {kind, OpClass::query, Sees::nothing, false};
    default:
      return {kind, OpClass::unknown, Sees::everything, names_stream(kind)};
  }
}

constexpr uint64_t kEvent = 0xE0;

class JoinRules : public OverlapTest {
 protected:
  // The call, on the stream, with this memory where the kind has any.
  Work make(const Row& row, uint64_t s, uint64_t memory) {
    return call(row.kind, row.op_class, names_stream(row.kind) ? s : 0, [&](Op& op) {
      static thread_local uint64_t p;
      static thread_local uint32_t n;
      static thread_local void* params[2];
      p = memory, n = 1024;
      params[0] = &p, params[1] = &n;
      op.bytes = 4096;
      switch (row.kind) {
        case OpKind::kernel:
        case OpKind::kernel_ex:
        case OpKind::kernel_cooperative:
          op.object = 0xF1;
          op.launch = {{1, 1, 1}, {1024, 1, 1}, 0, 0, nullptr, params, nullptr};
          break;
        case OpKind::copy_linear:
          op.add_range(memory, 4096, model::Access::write);
          op.add_range(kOther + 0xF'0000, 4096, model::Access::read);
          break;
        case OpKind::memset:
          op.add_range(memory, 4096, model::Access::write);
          break;
        case OpKind::event_record:
        case OpKind::event_wait:
          op.object = kEvent;
          break;
        case OpKind::stream_destroy:
          op.object = s;
          break;
        case OpKind::free_async:
        case OpKind::free_linear:
        case OpKind::free_host:
        case OpKind::unregister_host:
        case OpKind::unmap_vmm:
        case OpKind::free_vmm:
          // Its own block, of which the collective uses a part. The model knows the size; where it does not
          // look it up, the call says it.
          op.object = memory & ~(kBytes - 1);
          op.bytes = kBytes;
          break;
        default:
          op.object = 0x55;  // some handle
      }
    });
  }

  // What goes wrong with a collective pending in front of the call; "" when nothing does.
  std::string in_front(const Row& row) {
    std::string text;
    SetUp();
    warm(kX), warm(kY);
    const Work x = collective(kX, kBuffer), y = collective(kY, kBuffer + 0x1'0000);
    EXPECT_TRUE(moved(x) && moved(y));
    const Work w = make(row, kX, kBuffer);
    // Where a call is no work of a stream, the stream itself has waited.
    const bool ordered = row.kind == OpKind::event_record   ? d().events[kEvent].count(x) != 0
                         : names_stream(row.kind) && w != 0 ? before(x, w)
                                                            : stream_after(kX, x);
    if (row.sees != Sees::nothing && !ordered) text += "overtakes a collective of its stream; ";
    if (row.sees == Sees::everything && !stream_after(kY, y)) text += "overtakes a collective elsewhere; ";
    if (w && names_stream(row.kind) && before(y, w)) text += "waits for a foreign collective; ";
    return text;
  }
  // An unrelated collective is left alone: what the engine is for.
  std::string beside(const Row& row) {
    SetUp();
    warm(kX);
    const Work x = collective(kX, kBuffer);
    const Work w = make(row, kX, kOther);
    if (row.sees == Sees::stream || row.sees == Sees::everything) return "";
    return w && before(x, w) ? "waits for an unrelated collective; " : "";
  }
  // A later collective on the same memory does not overtake the call.
  std::string behind(const Row& row) {
    if (!row.works) return "";
    SetUp();
    warm(kX);
    collective(kX, kBuffer + 0x1'0000);  // leaves a place from which the next one could start
    if (row.kind == OpKind::event_wait) {
      // What the other stream wrote.
      const Work other = touch(kY, kOther);
      record(kEvent, kY);
      make(row, kX, kOther);
      const Work late = collective(kX, kOther);
      return before(other, late) ? "" : "a later collective overtakes what was waited for; ";
    }
    const Work w = make(row, kX, kOther);
    if (row.kind == OpKind::free_async || row.kind == OpKind::capture_begin) {
      if (row.kind == OpKind::capture_begin) call(OpKind::capture_end, OpClass::capture, kX);
      allocate(kOther, kBytes);
    }
    const Work late = collective(kX, kOther);
    return before(w, late) ? "" : "a later collective overtakes it; ";
  }
  // And one on other memory starts early, where the call's memory is known.
  std::string early(const Row& row) {
    if (row.sees != Sees::touching || !row.works || row.kind == OpKind::free_async) return "";
    SetUp();
    warm(kX);
    collective(kX, kBuffer + 0x1'0000);
    const Work w = make(row, kX, kOther);
    return before(w, collective(kX, kBuffer)) ? "an unrelated later collective waits for it; " : "";
  }
  std::string all(const Row& row) { return in_front(row) + beside(row) + behind(row) + early(row); }
};

TEST_F(JoinRules, EveryCallSeesWhatItMay) {
  for (size_t k = 0; k < kOpKinds; ++k) {
    const Row row = expectation(static_cast<OpKind>(k));
    EXPECT_EQ(all(row), "") << "kind " << k << ": " << join_rule(row.kind).why;
  }
}

// Mutants that no order of work can tell from the original, each kind of them with its proof.
const char* equivalence(OpKind kind, const JoinRule& rule, const JoinRule& original) {
  const bool scope_changed = rule.scope != original.scope;
  if (!scope_changed && !names_stream(kind))
    return "a call without a stream never reaches StreamState::before, the only reader of the log column";
  switch (kind) {
    case OpKind::kernel:
    case OpKind::kernel_ex:
    case OpKind::copy_linear:
    case OpKind::memset:
    case OpKind::free_async:
      return nullptr;
    case OpKind::event_record:
      if (scope_changed && rule.scope != JoinScope::none)
        return "a record on a stream with something pending takes OverlapLink::record_event for every scope "
               "but none";
      break;
    case OpKind::stream_destroy:
    case OpKind::context_destroy:
    case OpKind::primary_release:
    case OpKind::primary_reset:
      if (scope_changed && rule.scope != JoinScope::none)
        return "OverlapLink::before_end_of joins for every scope but none";
      if (!scope_changed) return "OverlapLink::on_op returns before the log column is read";
      break;
    case OpKind::stream_attribute:
      if (!scope_changed) return "nothing moves any more from a stream whose attributes were set";
      break;
    default:
      break;
  }
  if (scope_changed && rule.scope == JoinScope::access && original.scope >= JoinScope::stream &&
      names_stream(kind) && original.scope == JoinScope::stream)
    return "Touched::by answers `everything` for a kind it does not describe: access joins what stream joins";
  if (!scope_changed && rule.log == LogAs::touches)
    return "outside scope access StreamState::before makes a barrier of every log column but none";
  return nullptr;
}

TEST_F(JoinRules, EveryRowIsNeeded) {
  int mutants = 0, killed = 0, equivalent = 0;
  std::map<std::string, int> proofs;
  for (size_t k = 0; k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    JoinRule& rule = join_rule_for_tests(kind);
    const JoinRule original = rule;
    auto try_mutant = [&](const char* what) {
      ++mutants;
      if (const char* proof = equivalence(kind, rule, original)) {
        ++equivalent;
        ++proofs[proof];
        return;
      }
      const bool noticed = !all(expectation(kind)).empty();
      killed += noticed;
      EXPECT_TRUE(noticed) << "kind " << k << " (" << original.why << ") survived with " << what << " "
                           << static_cast<int>(rule.scope) << "/" << static_cast<int>(rule.log);
    };
    while (rule.scope != JoinScope::none) {
      rule.scope = static_cast<JoinScope>(static_cast<int>(rule.scope) - 1);
      try_mutant("scope");
    }
    rule = original;
    while (rule.log != LogAs::none) {
      rule.log = static_cast<LogAs>(static_cast<int>(rule.log) - 1);
      try_mutant("log");
    }
    rule = original;
  }
  std::printf("%d mutants of the join table, %d killed, %d equivalent\n", mutants, killed, equivalent);
  for (const auto& [proof, count] : proofs) std::printf("  %3d equivalent: %s\n", count, proof.c_str());
  EXPECT_EQ(mutants, killed + equivalent);
}

}  // namespace
}  // namespace shunt::overlap::test
