#include "runtime/graphs/graphs_link.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/exec/driver.h"
#include "runtime/graphs/transfers.h"
#include "runtime/model/model.h"
#include "runtime/trace/writer.h"

namespace shunt::graphs {

using model::Op;
using model::OpClass;
using model::OpKind;

namespace {
bool bufferable(const Op& op) {
  if (op.kind == OpKind::memset || op.kind == OpKind::copy_linear) return op.asynchronous;
  if (op.kind != OpKind::kernel && op.kind != OpKind::kernel_ex) return false;
  return op.launch.attribute_count == 0 && op.launch.extra == nullptr && op.function_info != nullptr &&
         op.object != 0;
}

}  // namespace

GraphsLink::GraphsLink(const Settings& settings)
    : settings_(settings), builder_(new Builder()), flusher_(new Flusher(*this)) {
  shared_.shadow = settings.shadow;
  shared_.limits = settings.limits;
  shared_.transfers = transfers_supported();
  shared_.builder = builder_;
  shared_.owner = this;
}

template <class F>
void GraphsLink::each(F&& visit) {
  const uint32_t n = std::min<uint32_t>(count_.load(std::memory_order_acquire), kStreams);
  for (uint32_t i = 0; i < n; ++i)
    if (StreamState* s = states_[i].load(std::memory_order_acquire))
      if (s->live.load(std::memory_order_acquire)) visit(*s, i);
}

StreamState* GraphsLink::state(model::StreamInfo& info) {
  if (void* known = info.graphs_state.load(std::memory_order_acquire)) {
    auto* s = static_cast<StreamState*>(known);
    if (s->is(info)) return s;
  }
  // First sight of the stream. One thread at a time; nothing calls the driver here.
  uint32_t open = 0;
  while (!growing_.compare_exchange_weak(open, 1, std::memory_order_acquire)) open = 0;
  StreamState* mine = nullptr;
  if (void* known = info.graphs_state.load(std::memory_order_acquire);
      known && static_cast<StreamState*>(known)->is(info)) {
    mine = static_cast<StreamState*>(known);
  } else {
    const uint32_t n = count_.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < n && !mine; ++i)
      if (!states_[i].load(std::memory_order_relaxed)->live.load()) mine = states_[i].load();
    if (!mine && n < kStreams) {
      mine = new (std::nothrow) StreamState(shared_);
      if (mine) {
        states_[n].store(mine, std::memory_order_release);
        count_.store(n + 1, std::memory_order_release);
      }
    }
    if (mine) {
      mine->begin(info);
      info.graphs_state.store(mine, std::memory_order_release);
    }
  }
  growing_.store(0, std::memory_order_release);
  return mine;
}

void GraphsLink::drain_all() {
  if (!holds_anything()) return;
  each([](StreamState& s, uint32_t) {
    if (s.holds()) s.drain();
  });
}

void GraphsLink::order(const model::StreamInfo* info) {
  if (!info) return drain_all();
  if (info->role == model::StreamRole::legacy_default) {
    if (shared_.pending_blocking.load(std::memory_order_acquire))
      each([](StreamState& s, uint32_t) {
        if (s.blocking() && s.holds()) s.drain();
      });
  } else if (!info->non_blocking && shared_.pending_legacy.load(std::memory_order_acquire)) {
    each([](StreamState& s, uint32_t) {
      if (s.legacy() && s.holds()) s.drain();
    });
  }
}

void GraphsLink::retire_all(Reason reason) {
  builder_->settle();
  each([reason](StreamState& s, uint32_t) { s.retire(reason); });
}

CUresult GraphsLink::on_op(Op& op) {
  if (shared_.off.load(std::memory_order_relaxed)) return next->on_op(op);
  if (bufferable(op) && !op.from_engine && op.stream_info &&
      op.stream_info->role != model::StreamRole::thread_default && !model::Model::get().any_capture() &&
      model::this_thread().inside_library == 0)
    if (StreamState* s = state(*op.stream_info))
      return op.op_class == OpClass::launch ? launch(*s, op) : transfer(*s, op);
  return other(op, drain_rule(op.kind));
}

// A memset or copy poses as a launch on its way through the stream's state, and as itself everywhere else.
CUresult GraphsLink::transfer(StreamState& s, Op& op) {
  TransferParams p;
  const Transfer t = shared_.transfers ? transfer_of(op, p) : Transfer::none;
  if (t == Transfer::none) return other(op, drain_rule(op.kind));
  void* params[] = {&p.to, &p.from, &p.bytes};
  const uint64_t object = op.object;
  op.object = static_cast<uint64_t>(t);
  op.function_info = &transfer_function(t);
  op.launch = {{1, 1, 1}, {1, 1, 1}, 0, 0, nullptr, params, nullptr};
  CUresult result = CUDA_SUCCESS;
  const bool taken = offer(s, op, result);
  op.object = object, op.function_info = nullptr;
  return taken ? result : pass_on(s, op);
}

CUresult GraphsLink::launch(StreamState& s, Op& op) {
  CUresult result = CUDA_SUCCESS;
  return offer(s, op, result) ? result : pass_on(s, op);
}

// True: held back, or out with its segment, and `result` is the program's answer. Else the caller makes the
// call.
inline bool GraphsLink::offer(StreamState& s, Op& op, CUresult& result) {
  order(op.stream_info);
  s.last_thread.store(model::this_thread().index, std::memory_order_relaxed);
  if (!s.launch(op, result)) return false;
  if (settings_.flusher) {
    if (__builtin_expect(!flusher_->begin(), 0)) {
      shared_.off.store(true);
      drain_all();
    }
    flusher_->notice();
  }
  return true;
}

inline CUresult GraphsLink::pass_on(StreamState& s, Op& op) {
  const CUresult result = next->on_op(op);
  if (__builtin_expect(result != CUDA_SUCCESS, 0)) {
    s.launch_failed();
    return result;
  }
  return s.take_deferred();
}

CUresult GraphsLink::other(Op& op, const DrainRule& rule) {
  StreamState* mine = nullptr;
  // Its streams have fewer SMs, which a graph's nodes would not know. First, so that the drain below is the
  // last one.
  if (op.kind == OpKind::green_context) {
    shared_.off.store(true);
    trace::decide({.feature = trace::Feature::graph,
                   .action = trace::Action::pass_through,
                   .reason = Reason::graph_green_context,
                   .outcome = trace::Outcome::declined});
  }
  // A call that returns after the device is done, on the default stream's terms, is seen by everybody.
  const bool everything = rule.scope == DrainScope::all ||
                          (rule.scope == DrainScope::stream &&
                           (!op.stream_info || (op.op_class == OpClass::copy && !op.asynchronous)));
  if (rule.scope != DrainScope::none) {
    if (everything) {
      drain_all();
      const int me = model::this_thread().index;
      if (rule.mark)
        each([&](StreamState& s, uint32_t) {
          if (s.last_thread.load(std::memory_order_relaxed) == me) s.mark(op);
        });
    } else {
      order(op.stream_info);
      void* known = op.stream_info->graphs_state.load(std::memory_order_acquire);
      if (known && static_cast<StreamState*>(known)->is(*op.stream_info))
        mine = static_cast<StreamState*>(known);
      if (mine) rule.mark ? mine->mark(op) : mine->drain();
    }
  }
  if (op.kind == OpKind::stream_attribute) {
    // Before any launch there is no state yet: make one, so that the stream is known to be special.
    model::StreamInfo* info = model::Model::get().stream(op.stream, op.per_thread, op.context);
    StreamState* s = info ? state(*info) : nullptr;
    s ? s->exclude() : shared_.off.store(true);
  } else if (op.kind == OpKind::other && op.op_class == OpClass::attribute) {
    retire_all(Reason::graph_attribute_changed);
  }
  const CUresult result = next->on_op(op);
  if (mine && result == CUDA_SUCCESS) return mine->take_deferred();
  return result;
}

void GraphsLink::drain(const exec::Scope& scope, Reason reason) {
  if (scope.kind == exec::Scope::Kind::stream && scope.handle > 2) {
    each([&](StreamState& s, uint32_t) {
      if (reinterpret_cast<uint64_t>(s.handle()) == scope.handle || s.legacy()) s.drain();
    });
    return;
  }
  // The end of the process or of the engine: nothing may be held back after this, nor built when libraries
  // go.
  const bool last =
      scope.kind == exec::Scope::Kind::all && (reason == Reason::none || reason == Reason::kill_switch);
  if (last) shared_.off.store(true);
  drain_all();
  if (last) builder_->settle();
}

void GraphsLink::forget(exec::HandleKind kind, uint64_t handle) {
  using exec::HandleKind;
  switch (kind) {
    case HandleKind::stream:
    case HandleKind::context:
      builder_->settle();
      each([&](StreamState& s, uint32_t) {
        const bool gone = kind == HandleKind::stream
                              ? reinterpret_cast<uint64_t>(s.handle()) == handle
                              : handle == 0 || reinterpret_cast<uint64_t>(s.context()) == handle;
        if (gone) s.end();
      });
      return;
    case HandleKind::module:
    case HandleKind::function:
      return retire_all(Reason::graph_handle_gone);
    case HandleKind::event:
    case HandleKind::allocation:
      return;  // graphs name neither: parameters are compared at every launch
  }
}

uint64_t GraphsLink::release_memory(uint64_t) {
  const uint64_t before = shared_.executable_bytes.load();
  if (before) retire_all(Reason::graph_memory_wanted);
  return before - std::min(before, shared_.executable_bytes.load());
}

void GraphsLink::fork_child() {
  // The parent's streams, threads and locks: none of them exists here. CUDA can't be used after a fork unless
  // it was not used before, and then there is nothing to forget.
  shared_.off.store(count_.load() != 0);
}

bool GraphsLink::flush_old() {
  if (!holds_anything()) return false;
  each([this](StreamState& s, uint32_t i) {
    const uint64_t batch = s.batch();
    if (s.holds() && last_batch_[i] == batch) s.drain();
    last_batch_[i] = batch;
  });
  return true;
}

exec::Link* create_graphs(const std::string& mode, const config::Config&) {
  const exec::Driver& driver = exec::Driver::get();
  for (const bool there :
       {driver.graph_create != nullptr, driver.graph_add_kernel_node != nullptr,
        driver.graph_instantiate != nullptr, driver.graph_launch != nullptr,
        driver.graph_exec_kernel_node_set_params != nullptr, driver.graph_exec_destroy != nullptr,
        driver.graph_destroy != nullptr, driver.func_get_param_info != nullptr,
        driver.launch_kernel != nullptr, driver.ctx_get_current != nullptr, driver.ctx_set_current != nullptr,
        driver.thread_exchange_capture_mode != nullptr}) {
    if (there) continue;
    trace::decide({.feature = trace::Feature::graph,
                   .action = trace::Action::pass_through,
                   .reason = Reason::capability_absent,
                   .outcome = trace::Outcome::declined});
    return nullptr;
  }
  GraphsLink::Settings settings;
  settings.shadow = mode == "shadow";
  return new GraphsLink(settings);
}

}  // namespace shunt::graphs
