#include "runtime/overlap/stream_state.h"

#include <algorithm>

#include "runtime/exec/driver.h"
#include "runtime/model/model.h"
#include "runtime/trace/names.h"
#include "runtime/trace/writer.h"

namespace shunt::overlap {

using model::Op;
using model::OpKind;

void StreamState::begin(model::StreamInfo& info) {
  info_ = &info;
  id_ = info.id;
  handle_ = info.handle;
  context_ = info.context;
  role_ = info.role;
  blocking_ = !info.non_blocking && role_ != model::StreamRole::legacy_default;
  excluded.store(false);
  live.store(true, std::memory_order_release);
}

void StreamState::end(bool context_gone) {
  model::GateGuard guard(gate);
  forget_pending();
  if (!context_gone) {
    for (const Mark& m : marks_) shared_.events.give(context_, m.event);
    shared_.events.give(context_, fork_event_);
    if (companion_) {
      // The driver finishes what is in them first. Their order must not be lent to another stream, so they
      // aren't kept.
      exec::Driver::get().stream_destroy(companion_->k);
      exec::Driver::get().stream_destroy(companion_->j);
    }
  }
  marks_.clear(), logged_.clear(), spans_.clear(), joined_.clear();
  logging_ = false;
  fork_event_ = {};
  companion_ = nullptr;  // leaked: events' snapshots may name it
  info_ = nullptr;
  live.store(false, std::memory_order_release);
  busy.store(0);
}

bool StreamState::prepare() {
  if (companion_) return true;
  Current current(context_);
  if (!current.ok()) return false;
  const exec::Driver& driver = exec::Driver::get();
  auto* c = new Companion();
  c->context = context_;
  // Clamped to the greatest priority there is.
  constexpr int kGreatest = -1000;
  if (driver.stream_create_with_priority(&c->k, CU_STREAM_NON_BLOCKING, kGreatest) != CUDA_SUCCESS) {
    delete c;
    return false;
  }
  if (driver.stream_create_with_priority(&c->j, CU_STREAM_NON_BLOCKING, kGreatest) != CUDA_SUCCESS) {
    driver.stream_destroy(c->k);
    delete c;
    return false;
  }
  for (CUstream stream : {c->k, c->j}) {
    model::StreamInfo* known = model::Model::get().stream(stream, false, context_);
    known->non_blocking = true;
    known->priority = kGreatest;
  }
  trace::name_stream(context_, c->k, "shunt comm");
  trace::name_stream(context_, c->j, "shunt join");
  companion_ = c;
  return true;
}

bool StreamState::already_joined(const Pending& p) const {
  for (const Joined& j : joined_)
    if (j.companion == p.companion) return p.sequence <= j.sequence;
  return false;
}

void StreamState::note_joined(Companion* companion, uint64_t sequence) {
  for (Joined& j : joined_) {
    if (j.companion != companion) continue;
    j.sequence = std::max(j.sequence, sequence);
    return;
  }
  if (joined_.size() >= 64) joined_.erase(joined_.begin());  // forgotten: at worst waited for again
  joined_.push_back({companion, sequence});
}

void StreamState::count_changed(size_t before) {
  const size_t now = pending_.size();
  pending_count.store(static_cast<uint32_t>(now), std::memory_order_release);
  std::atomic<uint32_t>* counter = legacy()    ? &shared_.pending_legacy
                                   : blocking_ ? &shared_.pending_blocking
                                               : nullptr;
  if (counter && (before == 0) != (now == 0)) now ? counter->fetch_add(1) : counter->fetch_sub(1);
}

void StreamState::update_busy(bool moving) {
  busy.store(moving || logging_ || !pending_.empty() ? 1 : 0, std::memory_order_seq_cst);
}

void StreamState::settle_in_flight() {
  for (uint32_t spins = 0; in_flight.load(std::memory_order_seq_cst) != 0; ++spins)
    spins % 64 == 63 ? static_cast<void>(sched_yield()) : cpu_relax();
}

void StreamState::forget_pending() {
  const size_t before = pending_.size();
  for (Pending* p : pending_) shared_.pending.drop(p);
  pending_.clear();
  count_changed(before);
}

// What ends on one stream ends in order: waiting for one is waiting for all before it.
void StreamState::drop_joined(Companion* companion, uint64_t sequence, Reason why) {
  const size_t before = pending_.size();
  size_t kept = 0;
  for (Pending* p : pending_) {
    if (p->companion != companion || p->sequence > sequence) {
      pending_[kept++] = p;
      continue;
    }
    // What ran beside it on its own stream is what moving it was good for.
    if (p->owner == id_ && p->kind && why != Reason::join_limit)
      shared_.profit.learned(p->kind, p->early || calls_ > p->calls_before);
    shared_.pending.drop(p);
  }
  pending_.resize(kept);
  count_changed(before);
}

Pending* StreamState::join(const Footprint* with, Reason reason, bool skip_unissued) {
  if (pending_.empty()) return nullptr;
  // The latest that matters, for each companion.
  for (;;) {
    Pending* latest = nullptr;
    for (Pending* p : pending_) {
      if (with && !p->footprint.conflicts(*with)) continue;
      if (p->issued.load(std::memory_order_acquire) == 0) {
        if (skip_unissued) continue;
        shared_.pending.keep(p);
        return p;
      }
      if (!latest || (p->companion == latest->companion && p->sequence > latest->sequence)) latest = p;
    }
    if (!latest) break;
    const uint64_t sequence = latest->sequence;
    Companion* companion = latest->companion;
    if (wait(shared_.owner->next, handle_, latest->end.event, context_) != CUDA_SUCCESS) {
      // The stream cannot be made to wait (an error that will not go away, mostly): the host waits instead.
      exec::Driver::get().event_synchronize(latest->end.event);
    }
    trace::decide({.feature = trace::Feature::comm,
                   .action = trace::Action::comm_join,
                   .reason = reason,
                   .outcome = trace::Outcome::applied,
                   .stream = id_,
                   .bytes = latest->bytes});
    shared_.counts.joins.fetch_add(1, std::memory_order_relaxed);
    note_joined(companion, sequence);
    drop_joined(companion, sequence, reason);
  }
  update_busy();
  return nullptr;
}

Pending* StreamState::before(Op& op, const JoinRule& rule, LogAs log_as) {
  const bool wanted = !pending_.empty() || logging_;
  if (!wanted) return nullptr;
  switch (rule.scope) {
    case JoinScope::access: {
      const Reason why = touched_.by(op, shared_.code, scratch_);
      if (Pending* p =
              join(scratch_.everything ? nullptr : &scratch_, why == Reason::none ? rule.reason : why))
        return p;
      if (log_as == LogAs::touches && !scratch_.everything)
        log(scratch_);
      else if (log_as != LogAs::none)
        log_barrier();
      calls_++;
      return nullptr;
    }
    case JoinScope::stream:
    case JoinScope::all: {
      const bool looks = op.kind == OpKind::sync_stream || op.kind == OpKind::query_stream;
      if (Pending* p = join(nullptr, rule.reason, looks)) return p;
      break;
    }
    case JoinScope::none:
    case JoinScope::object:
      break;
  }
  if (log_as != LogAs::none) log_barrier();
  return nullptr;
}

void StreamState::inherit(const std::vector<Pending*>& from) {
  const size_t before = pending_.size();
  for (Pending* p : from) {
    if (already_joined(*p) || std::find(pending_.begin(), pending_.end(), p) != pending_.end()) continue;
    shared_.pending.keep(p);
    pending_.push_back(p);
  }
  count_changed(before);
  update_busy();
}

std::vector<Pending*> StreamState::snapshot(bool issued_only) {
  std::vector<Pending*> out;
  for (Pending* p : pending_) {
    if (issued_only && p->issued.load(std::memory_order_acquire) == 0) continue;
    shared_.pending.keep(p);
    out.push_back(p);
  }
  return out;
}

void StreamState::clear_log() {
  for (const Mark& m : marks_) shared_.events.give(context_, m.event);
  marks_.clear();
  logged_.clear();
  spans_.clear();
  logging_ = false;
  update_busy();
}

void StreamState::log_barrier() {
  if (logging_) clear_log();  // nothing may start before it, so older places are of no use
}

void StreamState::log(const Footprint& footprint) {
  if (!logging_) return;
  if (logged_.size() >= kMostLogged || spans_.size() + footprint.count > kMostLoggedSpans)
    return clear_log();  // no collective for a long while
  logged_.push_back({static_cast<uint32_t>(spans_.size()), footprint.count});
  spans_.insert(spans_.end(), footprint.spans, footprint.spans + footprint.count);
}

CUevent StreamState::fork_point(const Footprint& footprint, CUresult& result, bool& starts_early) {
  result = CUDA_SUCCESS;
  starts_early = false;
  // Streams that the default stream's rules tie to others have work ahead of them that their log does not
  // show: they fork from now.
  const bool early = !legacy() && !blocking_;
  size_t after = 0;  // the place must be behind this many calls
  for (size_t i = logged_.size(); i-- > 0 && after == 0;) {
    for (uint32_t s = 0; s < logged_[i].count && after == 0; ++s)
      for (uint32_t k = 0; k < footprint.count; ++k)
        if (overlap(spans_[logged_[i].first + s], footprint.spans[k])) after = i + 1;
  }
  CUevent found = nullptr;
  if (early && logging_ && !footprint.everything)
    for (const Mark& m : marks_)
      if (m.position >= after) {
        found = m.event.event;
        starts_early = m.position < logged_.size();
        break;
      }
  const bool fresh = !marks_.empty() && logging_ && marks_.back().position == logged_.size();
  if (found && fresh) return found;
  // A place for this one, or for the next.
  const OwnEvent now = early || !fork_event_ ? shared_.events.take(context_) : fork_event_;
  if (!early) fork_event_ = now;
  if (!now) return found;
  const CUresult r = record(shared_.owner->next, now.event, handle_, context_);
  if (r != CUDA_SUCCESS) {
    if (early) shared_.events.give(context_, now);
    if (!found) result = r;
    return found;
  }
  if (!early) return now.event;
  if (marks_.size() >= 128) {
    shared_.events.give(context_, marks_.front().event);
    marks_.erase(marks_.begin());
  }
  logging_ = true;
  marks_.push_back({logged_.size(), now});
  update_busy(true);
  return found ? found : now.event;
}

void StreamState::publish(Pending* p, uint64_t kind, bool early) {
  p->kind = kind;
  p->owner = id_;
  p->calls_before = calls_;
  p->early = early;
  const size_t before = pending_.size();
  pending_.push_back(p);
  count_changed(before);
  update_busy(true);
}

void StreamState::retract(Pending* p) {
  const size_t before = pending_.size();
  const auto it = std::find(pending_.begin(), pending_.end(), p);
  if (it == pending_.end()) return;
  pending_.erase(it);
  shared_.pending.drop(p);
  count_changed(before);
  update_busy();
}

}  // namespace shunt::overlap
