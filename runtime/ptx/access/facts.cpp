#include "runtime/ptx/access/facts.h"

#include <utility>

#include "runtime/ptx/access/transfer.h"

namespace shunt::ptx::access {
namespace {

constexpr size_t kMaxFacts = 48, kMaxBounds = 8;
constexpr int kMaxDepth = 8;

// A single value that is non-negative whatever its arguments are: x & 15.
bool is_natural(const ValueGraph& graph, const Polynomial& poly) {
  if (poly.constant != 0 || poly.terms.size() != 1) return false;
  const Term& t = poly.terms[0];
  if (t.degree != 1 || t.factor != 1 || t.symbols[0] < kFirstNode) return false;
  const Node& node = graph.node(t.symbols[0]);
  if (node.kind == Node::Kind::below) return true;
  if (node.kind != Node::Kind::mask) return false;
  for (const Alternative& arg : node.args) {
    if (arg.poly.is_constant() && arg.poly.constant >= 0) return true;
  }
  return false;
}

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
      if (!holds) {
        // Not zero and never negative: at least one.
        if (e.b.poly == Polynomial::of(0) && is_natural(graph_, e.a.poly)) {
          Fact fact;
          fact.difference = e.a.poly;
          fact.minimum = 1;
          fact.checks = e.a.checks;
          if (out.size() < kMaxFacts) out.push_back(std::move(fact));
        }
        return;
      }
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

void Facts::differences(int32_t predicate, bool holds, int depth, std::vector<Difference>& out) {
  using Kind = PredicateExpression::Kind;
  if (predicate < 0 || depth > kMaxDepth || out.size() >= kMaxBounds) return;
  const PredicateExpression& e = graph_.predicates()[static_cast<size_t>(predicate)];
  if (e.kind == Kind::negation) return differences(e.first, !holds, depth + 1, out);
  if (e.kind == Kind::conjunction || e.kind == Kind::disjunction) {
    if (holds != (e.kind == Kind::conjunction)) return;
    differences(e.first, holds, depth + 1, out);
    differences(e.second, holds, depth + 1, out);
    return;
  }
  if (e.kind != Kind::equal || holds) return;
  Difference difference;
  difference.value = e.a.poly;
  if (!difference.value.add(e.b.poly, -1)) return;
  difference.checks = e.a.checks;
  merge_checks(difference.checks, e.b.checks);
  out.push_back(std::move(difference));
}

std::vector<Facts::Difference> Facts::different_at_edge(uint32_t from, uint32_t to) {
  std::vector<Difference> out;
  const Block& block = flow_.blocks()[from];
  for (size_t i = 0; i < block.successors.size(); ++i) {
    if (block.successors[i] == to && block.conditions[i] != 0)
      differences(graph_.block_guard(from), block.conditions[i] > 0, 0, out);
  }
  return out;
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

namespace {

// The product that `term` of a polynomial has beyond `part` (a product of a fact's difference); false when
// part is not in it.
bool divide(const Term& term, const Term& part, Term& rest) {
  if (term.degree < part.degree || term.factor % part.factor != 0) return false;
  rest = Term();
  rest.factor = 1;
  uint32_t p = 0;
  for (uint32_t i = 0; i < term.degree; ++i) {
    if (p < part.degree && part.symbols[p] == term.symbols[i])
      ++p;
    else
      rest.symbols[rest.degree++] = term.symbols[i];
  }
  return p == part.degree;
}

// Bounds of `poly` in one direction. From D >= m follows poly <= poly + c * (D - m) for every c >= 0 (and >=
// with minus); that helps where c cancels a product that varies. c may be a product itself (a row pitch) when
// it is checked not to be negative. What comes out is bounded further by the other facts, so that rows and
// columns both take effect.
void derive(ValueGraph& graph, const std::vector<Fact>& facts, const Polynomial& poly,
            const std::vector<uint32_t>& checks, bool upper, std::vector<Bound>& out) {
  out.clear();
  for (size_t from = 0; from <= out.size() && out.size() < kMaxBounds; ++from) {
    const Polynomial base = from == 0 ? poly : out[from - 1].value;
    const std::vector<uint32_t> base_checks = from == 0 ? checks : out[from - 1].checks;
    for (const Fact& fact : facts) {
      for (const Term& part : fact.difference.terms) {
        for (const Term& term : base.terms) {
          Term left;
          if (out.size() >= kMaxBounds || !divide(term, part, left)) continue;
          const int64_t quotient =
              term.factor / part.factor;  // base - quotient * rest * D has no such product
          if ((quotient < 0) != upper) continue;
          Polynomial rest = Polynomial::of(1);
          if (left.degree != 0) {
            rest.constant = 0;
            rest.terms.push_back(left);
          }
          Polynomial slack = fact.difference, change;
          Bound bound;
          bound.value = base;
          if (!slack.add(Polynomial::of(fact.minimum), -1) || !Polynomial::multiply(slack, rest, change) ||
              !bound.value.add(change, -quotient))
            continue;
          bool known = bound.value == poly;
          for (const Bound& other : out) known = known || other.value == bound.value;
          if (known) continue;
          bound.checks = base_checks;
          access::merge_checks(bound.checks, fact.checks);
          if (!rest.is_constant()) access::merge_checks(bound.checks, {graph.check(rest, 64, false)});
          out.push_back(std::move(bound));
        }
      }
    }
  }
}

}  // namespace

void apply_facts(ValueGraph& graph, const std::vector<Fact>& facts, Alternative& alternative,
                 RefinedChecks& refined) {
  if (facts.empty()) return;
  std::vector<uint32_t> checks;
  for (uint32_t id : alternative.checks) {
    auto known = refined.find(id);
    if (known == refined.end()) {
      const Check original = graph.checks()[id];
      Check check = original;
      derive(graph, facts, original.value, original.also, true, check.uppers);
      derive(graph, facts, original.value, original.also, false, check.lowers);
      const bool helps = !check.uppers.empty() || !check.lowers.empty();
      known = refined.emplace(id, helps ? graph.add_check(std::move(check)) : id).first;
    }
    merge_checks(checks, {known->second});
  }
  alternative.checks = std::move(checks);
  std::vector<Bound> own = std::exchange(alternative.uppers, {});  // turn counters of loops come with some
  derive(graph, facts, alternative.poly, alternative.checks, true, alternative.uppers);
  for (Bound& bound : own) alternative.uppers.push_back(std::move(bound));
  derive(graph, facts, alternative.poly, alternative.checks, false, alternative.lowers);
}

}  // namespace shunt::ptx::access
