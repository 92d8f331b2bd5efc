#include "runtime/ptx/access/facts.h"

#include "runtime/ptx/access/transfer.h"

namespace shunt::ptx::access {
namespace {

constexpr size_t kMaxFacts = 48, kMaxBounds = 6;
constexpr int kMaxDepth = 8;

}  // namespace

void Facts::compare(const PredicateExpression& e, const Value& small, const Value& large, int64_t minimum,
                    std::vector<Fact>& out) {
  if (out.size() >= kMaxFacts) return;
  Fact fact;
  fact.difference = large.poly;
  fact.minimum = minimum;
  if (!fact.difference.add(small.poly, -1) || fact.difference.is_constant()) return;
  fact.checks = small.checks;
  merge_checks(fact.checks, large.checks);
  // The comparison was of registers: their polynomials say the same only inside the type's range.
  for (const Value* side : {&small, &large}) {
    merge_checks(fact.checks, {graph_.check(side->poly, e.bits, e.is_signed)});
  }
  out.push_back(std::move(fact));
}

void Facts::add(int32_t predicate, bool holds, int depth, std::vector<Fact>& out) {
  using Kind = PredicateExpression::Kind;
  if (predicate < 0 || depth > kMaxDepth) return;
  const PredicateExpression& e = graph_.predicates()[static_cast<size_t>(predicate)];
  switch (e.kind) {
    case Kind::unknown:
      return;
    case Kind::less:
      if (holds)
        compare(e, e.a, e.b, 1, out);
      else
        compare(e, e.b, e.a, 0, out);
      return;
    case Kind::less_equal:
      if (holds)
        compare(e, e.a, e.b, 0, out);
      else
        compare(e, e.b, e.a, 1, out);
      return;
    case Kind::equal:
      if (!holds) return;
      compare(e, e.a, e.b, 0, out);
      compare(e, e.b, e.a, 0, out);
      return;
    case Kind::negation:
      add(e.first, !holds, depth + 1, out);
      return;
    case Kind::conjunction:
    case Kind::disjunction:
      if (holds != (e.kind == Kind::conjunction)) return;
      add(e.first, holds, depth + 1, out);
      add(e.second, holds, depth + 1, out);
      return;
  }
}

void Facts::add_edge(uint32_t from, uint32_t to, std::vector<Fact>& out) {
  const Block& block = flow_.blocks()[from];
  for (size_t i = 0; i < block.successors.size(); ++i) {
    if (block.successors[i] == to && block.conditions[i] != 0)
      add(graph_.block_guard(from), block.conditions[i] > 0, 0, out);
  }
}

const std::vector<Fact>& Facts::at_block(uint32_t block) {
  if (blocks_.empty()) {
    blocks_.resize(flow_.blocks().size());
    known_.assign(flow_.blocks().size(), false);
  }
  // From the nearest dominator that is known downwards, without recursion.
  std::vector<uint32_t> path;
  uint32_t at = block;
  while (!known_[at]) {
    path.push_back(at);
    const uint32_t up = flow_.dominator(at);
    if (up == at) break;
    at = up;
  }
  while (!path.empty()) {
    const uint32_t b = path.back();
    path.pop_back();
    std::vector<Fact> facts;
    const auto& predecessors = flow_.blocks()[b].predecessors;
    if (predecessors.size() == 1 && b != 0) add_edge(predecessors[0], b, facts);
    const uint32_t up = flow_.dominator(b);
    if (up != b) {
      for (const Fact& fact : blocks_[up]) {
        if (facts.size() < kMaxFacts) facts.push_back(fact);
      }
    }
    blocks_[b] = std::move(facts);
    known_[b] = true;
  }
  return blocks_[block];
}

std::vector<Fact> Facts::at_edge(uint32_t from, uint32_t to) {
  std::vector<Fact> facts;
  add_edge(from, to, facts);
  for (const Fact& fact : at_block(from)) {
    if (facts.size() < kMaxFacts) facts.push_back(fact);
  }
  return facts;
}

std::vector<Fact> Facts::at_instruction(uint32_t instruction) {
  std::vector<Fact> facts;
  add(graph_.guard_of(instruction), true, 0, facts);
  for (const Fact& fact : at_block(graph_.block_of(instruction))) {
    if (facts.size() < kMaxFacts) facts.push_back(fact);
  }
  return facts;
}

// From D >= m follows poly <= poly + c * (D - m) for every c >= 0. That helps where c cancels a product that
// varies.
void apply_facts(const std::vector<Fact>& facts, Alternative& alternative) {
  for (const Fact& fact : facts) {
    for (const Term& t : fact.difference.terms) {
      const Term* mine = alternative.poly.find(t);
      if (mine == nullptr || mine->factor % t.factor != 0) continue;
      const int64_t quotient = mine->factor / t.factor;  // poly - quotient * D has no such product
      std::vector<Bound>& bounds = quotient < 0 ? alternative.uppers : alternative.lowers;
      if (bounds.size() >= kMaxBounds) continue;
      Bound bound;
      bound.value = alternative.poly;
      // quotient < 0: poly + |quotient| * (D - m) >= poly; quotient > 0: poly - quotient * (D - m) <= poly.
      int64_t constant;
      if (!bound.value.add(fact.difference, -quotient) ||
          __builtin_mul_overflow(quotient, fact.minimum, &constant) ||
          !bound.value.add(Polynomial::of(constant), 1))
        continue;
      bool known = false;
      for (const Bound& other : bounds) known = known || other.value == bound.value;
      if (known) continue;
      bound.checks = fact.checks;
      merge_checks(bound.checks, alternative.checks);
      bounds.push_back(std::move(bound));
    }
  }
}

}  // namespace shunt::ptx::access
