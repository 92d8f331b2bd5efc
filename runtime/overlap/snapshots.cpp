#include "runtime/overlap/snapshots.h"

namespace shunt::overlap {
namespace {
uint64_t u(CUevent e) { return reinterpret_cast<uint64_t>(e); }
}  // namespace

void Snapshots::drop(Snapshot* s) {
  for (Pending* p : s->pending) pool_.drop(p);
  events_.give(s->context, s->alone);
  delete s;
}

void Snapshots::put(CUevent event, OwnEvent alone, CUcontext context, std::vector<Pending*> pending) {
  forget(event);
  auto* s = new Snapshot{alone, context, std::move(pending)};
  WriteGuard guard(lock_);
  by_event_.put(u(event), s);
  by_alone_.put(u(alone.event), s);
  count_.store(static_cast<uint32_t>(by_event_.size()), std::memory_order_release);
}

void Snapshots::forget(CUevent event) {
  if (!any()) return;
  Snapshot* s = nullptr;
  {
    WriteGuard guard(lock_);
    if (!by_event_.erase(u(event), &s)) return;
    count_.store(static_cast<uint32_t>(by_event_.size()), std::memory_order_release);
    s->gone = true;
    if (s->borrowers) return;
    by_alone_.erase(u(s->alone.event));
  }
  drop(s);
}

void Snapshots::forget_all() {
  std::vector<CUevent> all;
  {
    SharedGuard guard(lock_);
    by_event_.for_each([&](uint64_t event, Snapshot*&) { all.push_back(reinterpret_cast<CUevent>(event)); });
  }
  for (CUevent event : all) forget(event);
}

bool Snapshots::borrow(CUevent event, Borrowed& out) {
  if (!any()) return false;
  WriteGuard guard(lock_);
  Snapshot** there = by_event_.find(u(event));
  if (!there) return false;
  Snapshot* s = *there;
  s->borrowers++;
  out.alone = s->alone.event;
  out.context = s->context;
  out.pending = s->pending;
  for (Pending* p : out.pending) pool_.keep(p);
  return true;
}

void Snapshots::release(Borrowed& borrowed) {
  for (Pending* p : borrowed.pending) pool_.drop(p);
  borrowed.pending.clear();
  Snapshot* s = nullptr;
  {
    WriteGuard guard(lock_);
    Snapshot** there = by_alone_.find(u(borrowed.alone));
    if (!there) return;
    s = *there;
    if (--s->borrowers || !s->gone) return;
    by_alone_.erase(u(borrowed.alone));
  }
  drop(s);
}

}  // namespace shunt::overlap
