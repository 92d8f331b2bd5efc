#include "runtime/ptx/access/induction.h"

#include <algorithm>

#include "runtime/ptx/access/transfer.h"

namespace shunt::ptx::access {
namespace {

constexpr size_t kMaxBounds = 6;
constexpr int64_t kMaxStep = 1 << 20;

bool mentions(const Polynomial& poly, Symbol symbol) {
  for (const Term& t : poly.terms) {
    if (std::find(t.symbols.begin(), t.symbols.begin() + t.degree, symbol) != t.symbols.begin() + t.degree)
      return true;
  }
  return false;
}

}  // namespace

void Inductions::run() {
  // Inner loops last in reverse postorder of heads: outer counters are then known when inner ones start from
  // them.
  for (uint32_t block : flow_.order()) loop(block);
  graph_.resolve_all();
}

// Nothing that is made anew inside the loop. Blocks of the loop are dominated by its head; control that
// leaves them comes back through an entry edge only, which starts the count again.
bool Inductions::fixed(const Polynomial& poly) const {
  for (const Term& t : poly.terms) {
    for (uint32_t i = 0; i < t.degree; ++i) {
      if (t.symbols[i] == kLoaded) return false;
      if (t.symbols[i] < kFirstNode) continue;
      const uint32_t block = graph_.node(t.symbols[i]).block;
      if (block != UINT32_MAX && flow_.dominates(head_, block)) return false;
    }
  }
  return true;
}

bool Inductions::match(uint32_t node, Induction& out) const {
  out.phi = kFirstNode + node;
  const std::vector<uint32_t>& predecessors = flow_.blocks()[head_].predecessors;
  const std::vector<Alternative>& args = graph_.nodes_[node].args;
  if (args.size() != predecessors.size()) return false;
  bool has_first = false, has_step = false;
  for (size_t i = 0; i < args.size(); ++i) {
    Polynomial poly = args[i].poly;
    std::vector<uint32_t> checks = args[i].checks;
    graph_.resolve(poly, checks);
    if (poly.is_loaded()) return false;
    if (flow_.dominates(head_, predecessors[i])) {
      if (!poly.add(Polynomial::of_symbol(out.phi), -1) || mentions(poly, out.phi)) return false;
      if (has_step && !(poly == out.step)) return false;
      out.step = poly;
      has_step = true;
    } else {
      if (has_first && !(poly == out.first)) return false;
      out.first = poly;
      has_first = true;
    }
    merge_checks(out.checks, checks);
  }
  return has_first && has_step && fixed(out.first) && fixed(out.step);
}

Polynomial Inductions::in_turns(const Polynomial& poly) const {
  Polynomial result = poly;
  for (const Induction& induction : inductions_) {
    if (!mentions(result, induction.phi)) continue;
    Polynomial value, product;
    value = induction.first;
    if (!Polynomial::multiply(induction.step, Polynomial::of_symbol(turns_), product) ||
        !value.add(product, 1) || !ValueGraph::substitute(result, induction.phi, value))
      return Polynomial::of_symbol(kLoaded);
  }
  return result;
}

// poly = factor * T + rest with a constant factor that is not 0.
bool Inductions::split(const Polynomial& poly, int64_t& factor, Polynomial& rest) const {
  const Polynomial turns = Polynomial::of_symbol(turns_);
  const Term* term = poly.find(turns.terms[0]);
  if (term == nullptr || poly.is_loaded()) return false;
  factor = term->factor;
  rest = poly;
  return factor <= kMaxStep && factor >= -kMaxStep && rest.add(turns, -factor) && !mentions(rest, turns_) &&
         fixed(rest);
}

// Also of n - (n & 3), and of values rounded down.
bool Inductions::divisible(Polynomial poly, int64_t by, std::vector<uint32_t>& checks) const {
  for (int rounds = 0; rounds < 4; ++rounds) {
    bool changed = false;
    for (const Term& t : poly.terms) {
      if (t.degree != 1 || t.symbols[0] < kFirstNode || t.factor % by == 0) continue;
      const Node& node = graph_.node(t.symbols[0]);
      // Congruent modulo `by`: x & (2^k - 1) to x, and x & ~(2^k - 1) to 0, where by divides 2^k.
      Polynomial equal;
      if (node.kind == Node::Kind::mask && node.args.size() == 2 && node.args[1].poly.is_constant() &&
          node.args[1].poly.constant > 0 && node.args[1].poly.constant < INT32_MAX &&
          (node.args[1].poly.constant & (node.args[1].poly.constant + 1)) == 0 &&
          (node.args[1].poly.constant + 1) % by == 0)
        equal = node.args[0].poly, merge_checks(checks, node.args[0].checks);
      else if (!(node.kind == Node::Kind::align_down && node.amount < 31 &&
                 (int64_t{1} << node.amount) % by == 0))
        continue;
      const Symbol symbol = t.symbols[0];
      if (!ValueGraph::substitute(poly, symbol, equal)) return false;
      changed = true;
      break;
    }
    if (!changed) break;
  }
  if (poly.constant % by != 0) return false;
  for (const Term& t : poly.terms) {
    if (t.factor % by != 0) return false;
  }
  return true;
}

// Upper bounds of T + 1 on the way back from `latch`.
std::vector<Bound> Inductions::bounds(uint32_t latch) {
  std::vector<Bound> out;
  int64_t factor = 0;
  Polynomial rest;
  for (const Fact& fact : facts_.at_edge(latch, head_)) {
    if (out.size() >= kMaxBounds || !split(in_turns(fact.difference), factor, rest) || factor >= 0) continue;
    // rest - |factor| * T >= minimum
    Bound bound;
    bound.value = rest;
    bound.divisor = -factor;
    if (!bound.value.add(Polynomial::of(bound.divisor), 1) ||
        !bound.value.add(Polynomial::of(fact.minimum), -1))
      continue;
    bound.checks = fact.checks;
    out.push_back(std::move(bound));
  }
  if (latches_.size() != 1) return out;
  // A counter that ends the loop when it hits 0 exactly: it starts at a multiple of its step that is not
  // negative, so it cannot jump over 0, and on every way back it is still a step away.
  for (const Facts::Difference& difference : facts_.different_at_edge(latch, head_)) {
    if (out.size() >= kMaxBounds || !split(in_turns(difference.value), factor, rest)) continue;
    if (factor > 0) {
      Polynomial negated;
      if (!negated.add(rest, -1)) continue;
      rest = negated;
      factor = -factor;
    }
    Bound bound;
    bound.value = rest;
    bound.divisor = -factor;
    bound.checks = difference.checks;
    if (!divisible(rest, -factor, bound.checks)) continue;
    Alternative start;
    start.checks = {graph_.check(rest, 64, false)};
    if (entries_.size() == 1) {
      RefinedChecks refined;
      apply_facts(graph_, facts_.at_edge(entries_[0], head_), start, refined);
    }
    merge_checks(bound.checks, start.checks);
    out.push_back(std::move(bound));
  }
  return out;
}

void Inductions::loop(uint32_t head) {
  head_ = head;
  entries_.clear();
  latches_.clear();
  inductions_.clear();
  for (uint32_t p : flow_.blocks()[head].predecessors)
    (flow_.dominates(head, p) ? latches_ : entries_).push_back(p);
  if (latches_.empty() || entries_.empty() || head == 0) return;
  for (const ValueGraph::PendingPhi& phi : graph_.pending_) {
    if (phi.block != head || graph_.replaced_.count(phi.node) != 0) continue;
    Induction induction;
    if (match(phi.node, induction)) inductions_.push_back(std::move(induction));
  }
  if (inductions_.empty()) return;

  Node node;
  node.kind = Node::Kind::phi;
  turns_ = graph_.add_node(std::move(node));
  graph_.nodes_[turns_ - kFirstNode].block = head;
  std::vector<Alternative> args;
  for (uint32_t p : flow_.blocks()[head].predecessors) {
    Alternative arg;
    if (flow_.dominates(head, p)) {
      arg.uppers = bounds(p);
      if (arg.uppers.empty()) return;  // nothing says how often it turns; the node stays unused
      arg.poly = Polynomial::of_symbol(turns_);
      arg.poly.add(Polynomial::of(1), 1);
    }
    args.push_back(std::move(arg));
  }
  graph_.nodes_[turns_ - kFirstNode].args = std::move(args);
  graph_.places_[turns_ - kFirstNode] = {head, flow_.blocks()[head].predecessors};
  for (Induction& induction : inductions_) {
    for (uint32_t latch : latches_) {
      for (const Fact& fact : facts_.at_edge(latch, head))
        induction.direct = induction.direct || mentions(fact.difference, induction.phi);
    }
    if (induction.direct) continue;
    Polynomial value = induction.first, product;
    if (!Polynomial::multiply(induction.step, Polynomial::of_symbol(turns_), product) ||
        !value.add(product, 1))
      continue;
    graph_.replaced_[induction.phi - kFirstNode] = {value, induction.checks};
  }
}

}  // namespace shunt::ptx::access
