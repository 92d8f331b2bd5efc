#include "runtime/overlap/overlap_link.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/exec/bypass.h"
#include "runtime/exec/driver.h"
#include "runtime/model/model.h"
#include "runtime/overlap/nccl_hooks.h"
#include "runtime/trace/writer.h"

namespace shunt::overlap {

using model::GateGuard;
using model::Model;
using model::Op;
using model::OpKind;
using model::StreamInfo;

namespace {

uint64_t u(const void* p) { return reinterpret_cast<uint64_t>(p); }

// While one lives, the call counts as on its way to the driver.
class InFlight {
 public:
  explicit InFlight(StreamState& s) : s_(s) { s_.in_flight.fetch_add(1, std::memory_order_seq_cst); }
  ~InFlight() { s_.in_flight.fetch_sub(1, std::memory_order_release); }
  InFlight(const InFlight&) = delete;

 private:
  StreamState& s_;
};

}  // namespace

OverlapLink::OverlapLink(const Settings& settings) : settings_(settings), shared_(settings.assume) {
  shared_.owner = this;
}

template <class F>
void OverlapLink::each(F&& visit) {
  const uint32_t n = std::min<uint32_t>(count_.load(std::memory_order_acquire), kStreams);
  for (uint32_t i = 0; i < n; ++i)
    if (StreamState* s = states_[i].load(std::memory_order_acquire))
      if (s->live.load(std::memory_order_acquire)) visit(*s);
}

StreamState* OverlapLink::known(const StreamInfo& info) const {
  auto* s = static_cast<StreamState*>(info.overlap_state.load(std::memory_order_acquire));
  return s && s->is(info) ? s : nullptr;
}

StreamState* OverlapLink::state(StreamInfo& info) {
  if (StreamState* s = known(info)) return s;
  // First sight of the stream. One thread at a time; nothing calls the driver here.
  uint32_t open = 0;
  while (!growing_.compare_exchange_weak(open, 1, std::memory_order_acquire)) open = 0;
  StreamState* mine = known(info);
  if (!mine) {
    const uint32_t n = count_.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < n && !mine; ++i)
      if (!states_[i].load(std::memory_order_relaxed)->live.load()) mine = states_[i].load();
    if (!mine && n < kStreams) {
      mine = new (std::nothrow) StreamState(shared_);
      if (mine) {
        if (n == 0) exec::holding(true);  // for good: from here on every launch is looked at
        states_[n].store(mine, std::memory_order_release);
        count_.store(n + 1, std::memory_order_release);
      }
    }
    if (mine) {
      mine->begin(info);
      info.overlap_state.store(mine, std::memory_order_release);
    }
  }
  growing_.store(0, std::memory_order_release);
  return mine;
}

void OverlapLink::join_all(StreamState& s, Reason reason) {
  for (;;) {
    GateGuard gate(s.gate);
    Pending* first = s.join(nullptr, reason);
    if (!first) return;
    gate.leave();
    wait_issued(*first);
    shared_.pending.drop(first);
  }
}

void OverlapLink::join_everywhere(const Footprint* with, Reason reason) {
  const bool capturing = Model::get().any_capture();
  each([&](StreamState& s) {
    if (s.pending_count.load(std::memory_order_acquire) == 0) return;
    // Work of a capture cannot wait for work outside it, nor may the default stream be touched meanwhile;
    // their next own calls join.
    if (capturing && (s.legacy() || Model::get().capturing(s.info()))) return;
    // Another thread's default stream cannot be named here.
    if (s.thread_default() && Model::get().stream(CU_STREAM_PER_THREAD, true, s.context())->id != s.id())
      return;
    // What another thread is issuing right now is not in front of this call.
    GateGuard gate(s.gate);
    s.join(with, reason, true);
  });
}

// The legacy default stream waits for all blocking streams of its context, and they for it: what is pending
// there is in front of this call too.
void OverlapLink::default_stream_order(StreamInfo& info, StreamState*& s) {
  const bool legacy = info.role == model::StreamRole::legacy_default;
  if (!legacy && info.non_blocking) return;
  const auto& others = legacy ? shared_.pending_blocking : shared_.pending_legacy;
  if (others.load(std::memory_order_acquire) == 0) return;
  std::vector<Pending*> found;
  each([&](StreamState& other) {
    if (other.context() != info.context || (legacy ? !other.blocking() : !other.legacy())) return;
    if (other.pending_count.load(std::memory_order_acquire) == 0) return;
    GateGuard gate(other.gate);
    for (Pending* p : other.snapshot(false)) found.push_back(p);
  });
  if (found.empty()) return;
  if (!s) s = state(info);
  if (s) {
    GateGuard gate(s->gate);
    s->inherit(found);
  }
  for (Pending* p : found) {
    // No state could be had: the stream waits at once.
    if (!s) {
      wait_issued(*p);
      wait(next, info.handle, p->end.event, info.context);
    }
    shared_.pending.drop(p);
  }
}

CUresult OverlapLink::ordered(Op& op, const JoinRule& rule, StreamInfo& info) {
  StreamState* s = known(info);
  const bool looks = op.kind == OpKind::sync_stream || op.kind == OpKind::query_stream;
  // Looking at a blocking stream is no work of it, so the default stream's work isn't in front of it.
  if (!looks || info.role == model::StreamRole::legacy_default) default_stream_order(info, s);
  if (!s) return next->on_op(op);
  {
    InFlight flight(*s);
    if (s->busy.load(std::memory_order_seq_cst) == 0) {
      if (!looks) return next->on_op(op);
    }
  }
  for (;;) {
    GateGuard gate(s->gate);
    Pending* first = s->before(op, rule, rule.log);
    if (!first) {
      // A wait may take for ever; nobody must wait for it to be submitted.
      if (looks) break;
      InFlight flight(*s);
      gate.leave();
      return next->on_op(op);
    }
    gate.leave();
    wait_issued(*first);
    shared_.pending.drop(first);
  }
  return next->on_op(op);
}

CUresult OverlapLink::record_event(Op& op, StreamInfo& info, StreamState& s) {
  const auto event = reinterpret_cast<CUevent>(op.object);
  GateGuard gate(s.gate);
  std::vector<Pending*> behind = s.snapshot(true);
  OwnEvent alone;
  bool made = op.aux == 0 && !behind.empty() && !Model::get().any_capture() && s.prepare() &&
              static_cast<bool>(alone = shared_.events.take(info.context));
  if (made) {
    const CUstream j = s.companion()->j;
    made = record(next, alone.event, info.handle, info.context) == CUDA_SUCCESS &&
           wait(next, j, alone.event, info.context) == CUDA_SUCCESS;
    for (size_t i = 0; i < behind.size() && made; ++i) {
      bool latest = true;
      for (Pending* other : behind)
        latest =
            latest && (other->companion != behind[i]->companion || other->sequence <= behind[i]->sequence);
      if (latest) made = wait(next, j, behind[i]->end.event, info.context) == CUDA_SUCCESS;
    }
    if (made) {
      Op own = op;
      own.from_engine = true;
      own.stream = j;
      own.stream_info = Model::get().stream(j, false, info.context);
      own.arguments = nullptr;
      own.invoke = [](Op& o) {
        return o.result = exec::Driver::get().event_record(reinterpret_cast<CUevent>(o.object), o.stream);
      };
      const CUresult result = next->on_op(own);
      op.result = result;
      if (result == CUDA_SUCCESS) {
        snapshots_.put(event, alone, info.context, std::move(behind));
      } else {
        shared_.events.give(info.context, alone);
        for (Pending* p : behind) shared_.pending.drop(p);
      }
      return result;
    }
  }
  shared_.events.give(info.context, alone);
  for (Pending* p : behind) shared_.pending.drop(p);
  s.join(nullptr, Reason::join_observed, true);
  const CUresult result = next->on_op(op);
  if (result == CUDA_SUCCESS) snapshots_.forget(event);
  return result;
}

CUresult OverlapLink::wait_event(Op& op, StreamInfo& info) {
  Snapshots::Borrowed snapshot;
  StreamState* s = nullptr;
  if (op.aux != 0 || Model::get().any_capture() || !(s = state(info)) ||
      !snapshots_.borrow(reinterpret_cast<CUevent>(op.object), snapshot))
    return ordered(op, join_rule(op.kind), info);
  default_stream_order(info, s);
  CUresult result;
  {
    GateGuard gate(s->gate);
    s->update_busy(true);
    s->settle_in_flight();
    s->log_barrier();
    Op own = op;
    own.from_engine = true;
    own.stream = info.handle;  // also where the program named a default stream by 0
    own.object = u(snapshot.alone);
    own.arguments = nullptr;
    own.invoke = [](Op& o) {
      return o.result =
                 exec::Driver::get().stream_wait_event(o.stream, reinterpret_cast<CUevent>(o.object), 0);
    };
    result = next->on_op(own);
    op.result = result;
    if (result == CUDA_SUCCESS) s->inherit(snapshot.pending);
    if (s->pending().size() > StreamState::kMostPending) s->join(nullptr, Reason::join_limit, true);
    s->update_busy();
  }
  snapshots_.release(snapshot);
  return result;
}

// Streams and contexts: joined before, forgotten after.
void OverlapLink::before_end_of(Op& op, const JoinRule& rule) {
  if (rule.scope == JoinScope::none) return;
  if (op.kind != OpKind::stream_destroy) return join_everywhere(nullptr, rule.reason);
  each([&](StreamState& s) {
    if (u(s.handle()) == op.object) join_all(s, rule.reason);
  });
}

CUresult OverlapLink::on_op(Op& op) {
  if (shared_.off.load(std::memory_order_relaxed) || op.from_engine || model::this_thread().inside_library)
    return next->on_op(op);
  if (op.kind == OpKind::module_load) {
    const CUresult result = next->on_op(op);
    if (result == CUDA_SUCCESS && op.out)
      shared_.code.loaded(op.out, reinterpret_cast<const void*>(op.object));
    return result;
  }
  if (count_.load(std::memory_order_acquire) == 0) return next->on_op(op);  // no stream has met NCCL
  const JoinRule& rule = join_rule(op.kind);
  switch (op.kind) {
    case OpKind::stream_destroy:
    case OpKind::context_destroy:
    case OpKind::primary_release:
    case OpKind::primary_reset: {
      before_end_of(op, rule);
      const CUresult result = next->on_op(op);
      if (result != CUDA_SUCCESS) return result;
      const bool context = op.kind != OpKind::stream_destroy;
      each([&](StreamState& s) {
        const bool gone = !context                             ? u(s.handle()) == op.object
                          : op.kind == OpKind::context_destroy ? u(s.context()) == op.object
                                                               : true;
        if (!gone) return;
        if (context) {
          shared_.events.forget_context(s.context());
          shared_.trials.forget_context(s.context());
        }
        s.end(context);
      });
      if (context) snapshots_.forget_all();
      return result;
    }
    case OpKind::stream_attribute:
      if (StreamInfo* info = Model::get().stream(op.stream, op.per_thread, op.context))
        if (StreamState* s = state(*info)) s->excluded.store(true);
      break;
    case OpKind::graph_launch:
      // A graph may record events of the program.
      snapshots_.forget_all();
      break;
    default:
      break;
  }
  if (rule.scope == JoinScope::none && rule.log == LogAs::none) return next->on_op(op);
  if (rule.scope == JoinScope::all) {
    join_everywhere(nullptr, rule.reason);
    if (op.stream_info && !Model::get().capturing(op.stream_info)) return ordered(op, rule, *op.stream_info);
    return next->on_op(op);
  }
  if (rule.scope == JoinScope::object) {
    Footprint footprint;
    footprint.add(op.object, op.bytes, true);
    footprint.everything = op.bytes == 0;
    join_everywhere(&footprint, rule.reason);
    return next->on_op(op);
  }
  StreamInfo* info = op.stream_info;
  // Synchronous copies and the like name no stream: they are work of the default stream.
  if (!info) info = Model::get().stream(op.stream, op.per_thread, op.context);
  if (!info || Model::get().capturing(info)) return next->on_op(op);
  if (op.kind == OpKind::event_wait) return wait_event(op, *info);
  if (op.kind == OpKind::event_record) {
    StreamState* s = known(*info);
    default_stream_order(*info, s);
    CUresult result;
    if (s) {
      {
        InFlight flight(*s);
        if (s->pending_count.load(std::memory_order_seq_cst) == 0 || rule.scope == JoinScope::none) {
          result = next->on_op(op);
          if (result == CUDA_SUCCESS) snapshots_.forget(reinterpret_cast<CUevent>(op.object));
          return result;
        }
      }
      return record_event(op, *info, *s);
    }
    result = next->on_op(op);
    if (result == CUDA_SUCCESS) snapshots_.forget(reinterpret_cast<CUevent>(op.object));
    return result;
  }
  return ordered(op, rule, *info);
}

void OverlapLink::drain(const exec::Scope& scope, Reason reason) {
  // At the end of the process nothing is owed: all work has been submitted. NCCL's own calls belong to the
  // collective.
  if (reason == Reason::none || (reason != Reason::kill_switch && model::this_thread().inside_library))
    return;
  if (scope.kind == exec::Scope::Kind::stream && scope.handle > 2) {
    each([&](StreamState& s) {
      if (u(s.handle()) == scope.handle) join_all(s, Reason::join_other);
    });
    return;
  }
  join_everywhere(nullptr, Reason::join_other);
  if (reason != Reason::kill_switch) return;
  // Nobody joins after this. Streams that could not be made to wait here: the host waits for them, once.
  each([&](StreamState& s) {
    GateGuard gate(s.gate);
    for (Pending* p : s.pending())
      if (p->issued.load(std::memory_order_acquire)) exec::Driver::get().event_synchronize(p->end.event);
  });
}

void OverlapLink::forget(exec::HandleKind kind, uint64_t handle) {
  if (kind == exec::HandleKind::event) snapshots_.forget(reinterpret_cast<CUevent>(handle));
  if (kind == exec::HandleKind::module) shared_.code.unloaded(handle);
}

void OverlapLink::fork_child() {
  // The parent's streams and locks: none of them exists here. CUDA cannot be used after a fork unless it was
  // not used before, and then there is nothing to forget.
  shared_.off.store(count_.load() != 0);
  shared_.events.reset_after_fork();
  shared_.pending.reset_after_fork();
  shared_.profit.reset_after_fork();
  shared_.trials.reset_after_fork();
  shared_.code.reset_after_fork();
  snapshots_.reset_after_fork();
  collectives_.reset_after_fork();
}

exec::Link* create_overlap(const std::string& mode, const config::Config&) {
  const exec::Driver& driver = exec::Driver::get();
  for (const bool there : {driver.stream_create_with_priority != nullptr, driver.stream_destroy != nullptr,
                           driver.stream_wait_event != nullptr, driver.stream_synchronize != nullptr,
                           driver.event_create != nullptr, driver.event_record != nullptr,
                           driver.event_destroy != nullptr, driver.event_synchronize != nullptr,
                           driver.ctx_get_current != nullptr, driver.ctx_set_current != nullptr}) {
    if (there) continue;
    trace::decide({.feature = trace::Feature::comm,
                   .action = trace::Action::pass_through,
                   .reason = Reason::capability_absent,
                   .outcome = trace::Outcome::declined});
    return nullptr;
  }
  OverlapLink::Settings settings;
  settings.shadow = mode == "shadow";
  settings.assume = mode == "assume";
  const char* connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  settings.one_connection = connections && strcmp(connections, "1") == 0;
  auto* link = new OverlapLink(settings);
  install_nccl_hooks(*link);
  return link;
}

}  // namespace shunt::overlap
