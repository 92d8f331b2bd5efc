// What branches prove: on this path i < n. Turned into bounds for polynomials.
#pragma once
#include <vector>

#include "runtime/ptx/access/value_graph.h"

namespace shunt::ptx::access {

// difference >= minimum, when the checks hold.
struct Fact {
  Polynomial difference;
  int64_t minimum = 0;
  std::vector<uint32_t> checks;
};

class Facts {
 public:
  Facts(ValueGraph& graph, const ControlFlow& flow) : graph_(graph), flow_(flow) {}
  const std::vector<Fact>& at_block(uint32_t block);
  std::vector<Fact> at_edge(uint32_t from, uint32_t to);
  std::vector<Fact> at_instruction(uint32_t instruction);
  // Pairs of values that the condition of this edge says are different.
  struct Difference {
    Polynomial value;  // never 0 modulo 2^bits
    std::vector<uint32_t> checks;
  };
  std::vector<Difference> different_at_edge(uint32_t from, uint32_t to);

 private:
  void add(int32_t predicate, bool holds, int depth, std::vector<Fact>& out);
  void add_edge(uint32_t from, uint32_t to, std::vector<Fact>& out);
  void compare(const PredicateExpression& e, const Value& small, const Value& large, int64_t minimum,
               std::vector<Fact>& out);

  void differences(int32_t predicate, bool holds, int depth, std::vector<Difference>& out);

  ValueGraph& graph_;
  const ControlFlow& flow_;
  std::vector<std::vector<Fact>> blocks_;
  std::vector<bool> known_;
};

// Upper and lower bounds of alternative.poly that the facts imply; its checks are bounded in the same way.
// `refined` remembers the checks made for one and the same set of facts.
using RefinedChecks = std::unordered_map<uint32_t, uint32_t>;
void apply_facts(ValueGraph& graph, const std::vector<Fact>& facts, Alternative& alternative,
                 RefinedChecks& refined);

}  // namespace shunt::ptx::access
