// Loops that count: how often they turn at most, and pointers that move along with the counter.
#pragma once
#include <vector>

#include "runtime/ptx/access/facts.h"

namespace shunt::ptx::access {

// A phi of a loop head whose value is `first` on entry and `step` more after each turn, both fixed while the
// loop runs, equals first + step * T with T the number of turns so far. T is a phi of its own (0, then T +
// 1), bounded by the branches that lead back to the head. Where such a bound exists, phis that have none
// themselves are replaced.
class Inductions {
 public:
  Inductions(ValueGraph& graph, const ControlFlow& flow) : graph_(graph), flow_(flow), facts_(graph, flow) {}
  void run();

 private:
  struct Induction {
    Symbol phi = 0;
    Polynomial first, step;
    std::vector<uint32_t> checks;
    bool direct = false;  // a branch bounds it itself, more precisely than through T
  };
  void loop(uint32_t head);
  bool match(uint32_t node, Induction& out) const;
  bool fixed(const Polynomial& poly) const;
  Polynomial in_turns(const Polynomial& poly) const;
  bool split(const Polynomial& poly, int64_t& factor, Polynomial& rest) const;
  bool divisible(Polynomial poly, int64_t by, std::vector<uint32_t>& checks) const;
  std::vector<Bound> bounds(uint32_t latch);

  ValueGraph& graph_;
  const ControlFlow& flow_;
  Facts facts_;
  uint32_t head_ = 0;
  Symbol turns_ = 0;
  std::vector<uint32_t> entries_, latches_;
  std::vector<Induction> inductions_;
};

}  // namespace shunt::ptx::access
