#include "runtime/exec/chain.h"

#include "runtime/base/log.h"
#include "runtime/exec/bypass.h"
#include "runtime/trace/writer.h"

namespace shunt::exec {

std::atomic<Link*> Chain::first_{nullptr};

namespace detail {
std::atomic<uint32_t> g_holding{0};
std::atomic<bool> g_may_bypass{false};
}  // namespace detail

Chain& Chain::get() {
  static Chain* chain = new Chain();
  return *chain;
}

void Chain::build(std::vector<Link*> links) {
  links_ = std::move(links);
  for (size_t i = 0; i + 1 < links_.size(); i++) links_[i]->next = links_[i + 1];
  bool may_bypass = true;
  for (const Link* link : links_) may_bypass &= !link->sees_launches();
  detail::g_may_bypass.store(may_bypass);
  first_.store(links_.empty() ? nullptr : links_.front(), std::memory_order_release);
}

void Chain::drain(const Scope& scope, Reason reason) {
  for (Link* link : links_)
    link->drain(scope, reason);  // top down: what an upper link submits, a lower one may hold
}

uint64_t Chain::release_memory(uint64_t bytes) {
  uint64_t freed = 0;
  for (Link* link : links_) {
    if (freed >= bytes) break;
    freed += link->release_memory(bytes - freed);
  }
  return freed;
}

void Chain::forget(HandleKind kind, uint64_t handle) {
  for (Link* link : links_) link->forget(kind, handle);
}

bool Chain::delays() const {
  for (const Link* link : links_)
    if (link->delays()) return true;
  return false;
}

void Chain::kill(const char* what) {
  if (!first_.load(std::memory_order_acquire)) return;
  SHUNT_LOG_ERROR(exec, "%s; engines are switched off for the rest of this process, the program goes on",
                  what);
  // Off first: whatever fails below, no later call comes back here.
  first_.store(nullptr, std::memory_order_release);
  drain(Scope::everything(), Reason::kill_switch);
  for (Link* link : links_) link->disable();
  trace::decide(
      {.feature = trace::Feature::process, .action = trace::Action::stop, .reason = Reason::kill_switch});
}

void Chain::fork_child() {
  for (Link* link : links_) link->fork_child();
}

void link_threw() noexcept {
  try {
    Chain::get().kill("out of memory inside shunt");
  } catch (...) {
  }
}

}  // namespace shunt::exec
