#include "runtime/overlap/collectives.h"

#include <algorithm>
#include <optional>

#include "runtime/exec/driver.h"
#include "runtime/model/model.h"
#include "runtime/overlap/overlap_link.h"
#include "runtime/trace/gpu_trace.h"
#include "runtime/trace/writer.h"

namespace shunt::overlap {

using model::GateGuard;
using model::Model;

namespace {

// NCCL's own driver calls belong to the collective.
class InsideLibrary {
 public:
  InsideLibrary() { model::this_thread().inside_library++; }
  ~InsideLibrary() { model::this_thread().inside_library--; }
  InsideLibrary(const InsideLibrary&) = delete;
};

uint64_t u(const void* p) { return reinterpret_cast<uint64_t>(p); }
bool is_special(CUstream s) { return u(s) <= 2; }

}  // namespace

uint64_t Collectives::decide(Reason reason, const StreamState* state, uint64_t bytes) {
  const bool moved = reason == Reason::comm_moved;
  const bool shadow = link_.settings().shadow;
  auto& counts = link_.shared().counts;
  (moved ? counts.moved : counts.passed).fetch_add(1, std::memory_order_relaxed);
  return trace::decide({.feature = trace::Feature::comm,
                        .action = moved ? trace::Action::comm_move : trace::Action::pass_through,
                        .reason = reason,
                        .outcome = !moved   ? trace::Outcome::declined
                                   : shadow ? trace::Outcome::shadow
                                            : trace::Outcome::applied,
                        .stream = state ? state->id() : 0,
                        .bytes = bytes});
}

Reason Collectives::eligible(const Operation& o, Candidate& c) {
  auto& [state, footprint, bytes, kind] = c;
  footprint.clear();
  Model& model = Model::get();
  CommInfo* comm = communicators_.find(o.comm);
  if (!comm) return Reason::comm_unknown;
  // A default stream is the one of the communicator's context.
  CUcontext context = comm->context.load(std::memory_order_acquire);
  if (is_special(o.stream) && !context) return Reason::comm_unknown;
  model::StreamInfo* info = model.stream(o.stream, false, context);
  if (!info || (context && info->context != context)) return Reason::comm_unknown;
  if (!context) comm->context.store(info->context, std::memory_order_release);
  state = link_.known(*info);
  if (!comm->blocking) return Reason::comm_non_blocking;
  if (comm->poisoned.load(std::memory_order_acquire)) return Reason::comm_poisoned;
  if (link_.settings().one_connection) return Reason::comm_one_connection;
  if (model.any_capture()) return Reason::application_capture;
  Bytes sizes;
  if (!operation_bytes(o, comm->ranks, comm->rank, sizes)) return Reason::comm_unknown_type;
  bytes = std::max(sizes.read, sizes.write);
  footprint.add(u(o.send), sizes.read, false);
  footprint.add(u(o.receive), sizes.write, true);
  if (!communicators_.operator_reads(o, footprint)) return Reason::comm_unknown_type;
  if (bytes == 0) return Reason::comm_unknown_type;
  const int device = model.device_of(info->context);
  for (uint32_t i = 0; i < footprint.count; ++i)
    if (!plain_device_memory(footprint.spans[i].begin, footprint.spans[i].end - footprint.spans[i].begin,
                             device))
      return Reason::comm_memory_kind;
  state = link_.state(*info);
  if (!state) return Reason::comm_no_stream;
  if (state->excluded.load()) return Reason::comm_stream_attribute;
  kind = Communicators::kind_of(*comm, o.function, bytes);
  if (communicators_.note_use(kind) < link_.settings().first_uses) return Reason::comm_first_uses;
  return Reason::comm_moved;
}

Reason Collectives::worthwhile(const Operation& o, const Candidate& c) {
  Shared& shared = link_.shared();
  if (!shared.profit.worthwhile(c.kind)) return Reason::comm_no_window;
  switch (shared.trials.ask(c.kind, u(o.receive ? o.receive : o.send), link_.next, c.state->handle(),
                            c.state->context())) {
    case Trials::Say::measuring:
      return Reason::comm_measuring;
    case Trials::Say::no_gain:
      return Reason::comm_no_gain;
    case Trials::Say::move:
      break;
  }
  return Reason::comm_moved;
}

// Before a call of NCCL that stays on the program's stream: communication keeps its order, and what a later
// link holds back goes first.
void Collectives::settle(StreamState* state, CUstream stream) {
  if (state) {
    model::StreamInfo* info = const_cast<model::StreamInfo*>(state->info());
    if (info) link_.default_stream_order(*info, state);
    link_.join_all(*state, Reason::join_communication);
    GateGuard gate(state->gate);
    state->log_barrier();
  }
  for (exec::Link* l = link_.next; l; l = l->next)
    l->drain(exec::Scope::of_stream(stream), Reason::inside_library);
}

nccl::Result Collectives::pass(const Operation& o, StreamState* state, Reason reason, uint64_t bytes,
                               Real real) {
  decide(reason, state, bytes);
  settle(state, o.stream);
  nccl::Result result;
  {
    InsideLibrary inside;
    result = real(o.stream);
  }
  // The companion is made while nothing depends on it.
  if (state && reason == Reason::comm_first_uses && !link_.settings().shadow && !Model::get().any_capture()) {
    GateGuard gate(state->gate);
    state->prepare();
  }
  return result;
}

Pending* Collectives::fork(const Candidate& c, bool must) {
  StreamState& s = *c.state;
  Shared& shared = link_.shared();
  exec::Link* below = link_.next;
  StreamState* self = &s;
  if (s.info()) link_.default_stream_order(*const_cast<model::StreamInfo*>(s.info()), self);
  for (;;) {
    GateGuard gate(s.gate);
    s.update_busy(true);
    s.settle_in_flight();
    Companion& companion = *s.companion();
    // Communication keeps its order: what is pending elsewhere comes first.
    Pending* first = nullptr;
    for (Pending* p : s.pending())
      if (p->companion != &companion && p->issued.load(std::memory_order_acquire) == 0) first = p;
    if (first) {
      shared.pending.keep(first);
      gate.leave();
      wait_issued(*first);
      shared.pending.drop(first);
      continue;
    }
    if (s.pending().size() >= StreamState::kMostPending) s.join(nullptr, Reason::join_limit, true);
    CUresult result = CUDA_SUCCESS;
    bool early = false;
    CUevent at = s.fork_point(c.footprint, result, early);
    bool ok = at && wait(below, companion.k, at, s.context()) == CUDA_SUCCESS;
    if (!ok && must) {
      // NCCL has the companion's name already: the host makes sure of the order.
      exec::Driver::get().stream_synchronize(s.handle());
      ok = true;
    }
    for (Pending* p : s.pending())
      if (ok && p->companion != &companion)
        ok = wait(below, companion.k, p->end.event, s.context()) == CUDA_SUCCESS;
    Pending* p = ok ? shared.pending.take() : nullptr;
    if (p) {
      p->context = s.context();
      p->end = shared.events.take(s.context());
      if (!p->end) {
        shared.pending.drop(p);
        p = nullptr;
      }
    }
    if (!p) {
      s.update_busy();
      return nullptr;
    }
    p->companion = &companion;
    p->sequence = companion.next_sequence.fetch_add(1);
    p->footprint = c.footprint;
    p->bytes = c.bytes;
    shared.pending.keep(p);  // ours, until it is issued
    s.publish(p, c.kind, early);
    return p;
  }
}

void Collectives::issued(StreamState& s, Pending* p, bool failed) {
  GateGuard gate(s.gate);
  const bool recorded = record(link_.next, p->end.event, p->companion->k, p->context) == CUDA_SUCCESS;
  if (!recorded) exec::Driver::get().stream_synchronize(p->companion->k);
  mark_issued(*p);
  if (!recorded)
    s.retract(p);  // done
  else if (failed)
    s.join(nullptr, Reason::join_failed, true);
  else if (p->footprint.everything)
    s.join(nullptr, Reason::join_communication, true);
  s.update_busy();
  gate.leave();
  link_.shared().pending.drop(p);
}

void Collectives::poison(nccl::Comm comm) {
  if (CommInfo* info = communicators_.find(comm)) info->poisoned.store(true, std::memory_order_release);
}

nccl::Result Collectives::move(const Operation& o, const Candidate& c, Real real) {
  Pending* p = fork(c, false);
  if (!p) return pass(o, c.state, Reason::comm_no_stream, c.bytes, real);
  const uint64_t decision = decide(Reason::comm_moved, c.state, c.bytes);
  nccl::Result result;
  {
    InsideLibrary inside;
    const trace::gpu::Around around(trace::Feature::comm, decision);
    result = real(p->companion->k);
  }
  issued(*c.state, p, result != nccl::kSuccess);
  if (result != nccl::kSuccess) poison(o.comm);
  return result;
}

nccl::Result Collectives::call(const Operation& o, Real real) {
  if (Group* g = group(false); g && g->depth > 0) return member(*g, o, real);
  Candidate c;
  Reason why = eligible(o, c);
  if (why == Reason::comm_moved && link_.settings().shadow) {
    decide(why, c.state, c.bytes);
    settle(nullptr, o.stream);
    InsideLibrary inside;
    return real(o.stream);
  }
  if (why == Reason::comm_moved) why = worthwhile(o, c);
  if (why == Reason::comm_moved) {
    GateGuard gate(c.state->gate);
    if (!c.state->prepare()) why = Reason::comm_no_stream;
  }
  if (why == Reason::comm_moved) return move(o, c, real);
  return pass(o, c.state, why, c.bytes, real);
}

// ---- groups: nothing is enqueued before their end ----

Collectives::Group* Collectives::group(bool make) {
  const auto thread = static_cast<uint64_t>(model::this_thread().index);
  WriteGuard guard(lock_);
  if (Group** there = groups_.find(thread)) return *there;
  if (!make) return nullptr;
  auto* g = new Group();
  groups_.put(thread, g);
  return g;
}

nccl::Result Collectives::member(Group& g, const Operation& o, Real real) {
  Candidate m;
  Reason why = eligible(o, m);
  const bool shadow = link_.settings().shadow;
  if (!g.decided) {
    g.decided = true;
    bool ready = false;
    if (why == Reason::comm_moved && !shadow) {
      GateGuard gate(m.state->gate);
      ready = m.state->prepared();
    }
    if (why == Reason::comm_moved && !ready && !shadow) why = Reason::comm_first_uses;
    if (ready) why = worthwhile(o, m);
    g.moving = ready && why == Reason::comm_moved;
  } else if (!g.moving && why == Reason::comm_moved && !shadow) {
    why = Reason::comm_group_passed;
  }
  model::StreamInfo* info = nullptr;
  if (CommInfo* comm = communicators_.find(o.comm))
    info = Model::get().stream(o.stream, false, comm->context);
  bool moving = g.moving && !Model::get().any_capture();
  if (moving) {
    // The rest of a group that moves goes along; where it is not known what it touches, it is joined at once.
    if (info && !m.state) m.state = link_.state(*info);
    if (why != Reason::comm_moved) m.footprint.everything = true;
    moving = info && m.state;
    if (moving) {
      GateGuard gate(m.state->gate);
      moving = m.state->prepare();
    }
  }
  const uint64_t decision =
      decide(moving && why != Reason::comm_moved ? Reason::comm_moved : why, m.state, m.bytes);
  if (moving) {
    if (g.decision == 0) g.decision = decision;
    trace::gpu::issued_with(decision, g.decision);
  }
  nccl::Result result;
  {
    InsideLibrary inside;
    result = real(moving ? m.state->companion()->k : o.stream);
  }
  if (result != nccl::kSuccess) return result;
  if (moving) {
    g.moved.push_back(m);
    g.comms.push_back(o.comm);
  } else {
    if (!m.state && info) m.state = link_.known(*info);
    const std::pair stays{m.state, o.stream};
    if (std::find(g.passed.begin(), g.passed.end(), stays) == g.passed.end()) g.passed.push_back(stays);
  }
  return result;
}

nccl::Result Collectives::group_start(Plain real) {
  nccl::Result result;
  {
    InsideLibrary inside;
    result = real();
  }
  if (result == nccl::kSuccess) group(true)->depth++;
  return result;
}

nccl::Result Collectives::group_end(Plain real, bool simulated) {
  Group* g = group(false);
  if (!g || g->depth != 1) {
    InsideLibrary inside;
    const nccl::Result result = real();
    if (g && g->depth > 1) g->depth--;
    return result;
  }
  Group mine = std::move(*g);
  *g = Group{};
  if (simulated) {
    InsideLibrary inside;
    return real();
  }
  // Streams of one group act as if every operation sat on each of them.
  Candidate all;
  std::vector<StreamState*> streams;
  for (const Candidate& m : mine.moved) {
    all.footprint.add(m.footprint);
    all.bytes += m.bytes;
    if (!all.kind) all.kind = m.kind;
    if (std::find(streams.begin(), streams.end(), m.state) == streams.end()) streams.push_back(m.state);
  }
  for (const auto& [state, stream] : mine.passed) settle(state, stream);
  std::vector<Pending*> forked;
  for (StreamState* s : streams) {
    all.state = s;
    forked.push_back(fork(all, true));
  }
  nccl::Result result;
  {
    InsideLibrary inside;
    std::optional<trace::gpu::Around> around;
    if (mine.decision) around.emplace(trace::Feature::comm, mine.decision);
    result = real();
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    if (forked[i])
      issued(*streams[i], forked[i], result != nccl::kSuccess);
    else
      exec::Driver::get().stream_synchronize(streams[i]->companion()->k);
  }
  if (result != nccl::kSuccess)
    for (nccl::Comm comm : mine.comms) poison(comm);
  for (const Made& m : mine.made)
    if (result == nccl::kSuccess || result == nccl::kInProgress)
      communicators_.created(*m.out, m.blocking, m.context);
  // What stayed and was eligible but for its first uses gets its companion now.
  for (const auto& [s, stream] : mine.passed) {
    if (!s || link_.settings().shadow || Model::get().any_capture()) continue;
    GateGuard gate(s->gate);
    s->prepare();
  }
  return result;
}

nccl::Result Collectives::ends(nccl::Comm comm, bool abort, Plain real) {
  if (abort)
    poison(comm);
  else
    link_.join_everywhere(nullptr, Reason::join_communication);
  InsideLibrary inside;
  return real();
}

void Collectives::makes(nccl::Comm* out, bool blocking, bool here) {
  if (!out) return;
  const CUcontext context = here ? Model::get().current_context() : nullptr;
  Group* g = group(false);
  if (g && g->depth > 0)
    g->made.push_back({out, blocking, context});
  else
    communicators_.created(*out, blocking, context);
}

void Collectives::reset_after_fork() {
  lock_.reset_after_fork();
  communicators_.reset_after_fork();
}

}  // namespace shunt::overlap
