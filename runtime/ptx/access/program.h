// What is left of a kernel's analysis for launches: groups of accesses and the value nodes they need.
// Immutable.
#pragma once
#include <vector>

#include "runtime/ptx/access/value_graph.h"

namespace shunt::ptx {

struct KernelAccessProgram {
  struct Candidate {
    uint32_t parameter = 0, offset = 0;  // an 8-byte word of the parameter
    bool operator==(const Candidate& o) const { return parameter == o.parameter && offset == o.offset; }
  };
  struct Group {
    AccessMode mode = AccessMode::read;
    access::Alternative low;  // lowest address of the group's accesses
    int64_t extent = 0;       // bytes from there to the end of the highest; 0: unknown
    std::vector<Candidate> candidates;
  };
  std::vector<access::Node> nodes;
  std::vector<access::Check> checks;
  std::vector<Group> groups;
  std::vector<uint32_t> offsets;  // of parameters in the buffer
};

namespace access {

struct Interval {
  __int128 low = 0, high = 0;
  bool empty = false;
  static constexpr __int128 kLimit = static_cast<__int128>(1) << 62;  // beyond is infinite
  static constexpr __int128 kInfinite = static_cast<__int128>(1) << 100;
  static Interval all() { return {-kInfinite, kInfinite, false}; }
  static Interval nothing() { return {0, 0, true}; }
  static Interval point(__int128 v) { return {v, v, false}; }
  bool bounded() const { return !empty && low >= -kLimit && high <= kLimit; }
  bool inside(const Interval& outer) const {
    return empty || (!outer.empty && low >= outer.low && high <= outer.high);
  }
};

// Runs a program for one launch. One thread; small enough for the stack except for its memo.
class Evaluator {
 public:
  Evaluator(const KernelAccessProgram& program, const LaunchShape& shape, const uint8_t* parameters);
  Interval evaluate(const Alternative& alternative);
  uint64_t word(const KernelAccessProgram::Candidate& candidate) const;

 private:
  enum class State : uint8_t { fresh, running, done };
  enum class CheckState : uint8_t { fresh, holds, fails };
  Interval polynomial(const Polynomial& poly);
  Interval bounded(const Polynomial& poly, const std::vector<Bound>& uppers,
                   const std::vector<Bound>& lowers);
  Interval symbol(Symbol symbol);
  Interval node(uint32_t index);
  Interval compute(const Node& node);
  Interval phi(uint32_t index);
  Interval hull(const Node& node);
  bool holds(const std::vector<uint32_t>& checks);
  bool holds_one(const Check& check);

  static constexpr int kNone = 1 << 30;

  const KernelAccessProgram& program_;
  const LaunchShape& shape_;
  const uint8_t* parameters_;
  std::vector<State> state_;
  std::vector<Interval> memo_;  // results, and assumptions of running ones
  std::vector<int> level_;      // of running nodes: how deep in loops
  std::vector<CheckState> check_state_;
  int lowest_ = kNone;         // outermost running node that was read: the result rests on its assumption
  bool trust_checks_ = false;  // while guessing a loop's range; what is guessed is verified without it
  int depth_ = 0, loops_ = 0;
  int budget_ = 20000;  // nodes computed in one launch; then everything is unbounded
};

}  // namespace access
}  // namespace shunt::ptx
