// The chain of links and the switch in front of it. `first` is null while no engine and no call recording is
// on: a hook then costs one load. Built once at initialisation; the kill switch only ever empties it. Any
// thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/exec/link.h"

namespace shunt::exec {

class Chain {
 public:
  static Chain& get();
  static Link* first() { return first_.load(std::memory_order_acquire); }

  // Links in call order; the last must be the driver link. Their `next` is set here.
  void build(std::vector<Link*> links);
  void drain(const Scope& scope, Reason reason);
  uint64_t release_memory(uint64_t bytes);
  void forget(HandleKind kind, uint64_t handle);
  bool delays() const;
  // An internal check failed: drain, disable every link, leave the call path. Idempotent.
  void kill(const char* what);
  void fork_child();
  const std::vector<Link*>& links() const { return links_; }

 private:
  static std::atomic<Link*> first_;
  std::vector<Link*> links_;
};

}  // namespace shunt::exec
