#include "runtime/ptx/access/value_graph.h"

#include <algorithm>

#include "runtime/ptx/access/transfer.h"

namespace shunt::ptx::access {
namespace {

constexpr size_t kMaxNodes = 200000, kMaxPhiArguments = 64;

uint64_t key(uint32_t block, uint32_t reg) { return static_cast<uint64_t>(block) << 32 | reg; }

Value loaded() {
  Value value;
  value.poly = Polynomial::of_symbol(kLoaded);
  return value;
}

}  // namespace

ValueGraph::ValueGraph(const Module& module, const Function& kernel, const ControlFlow& flow)
    : module_(module), kernel_(kernel), flow_(flow) {}

ValueGraph::Register ValueGraph::register_of(std::string_view name) {
  auto [it, fresh] = registers_.emplace(name, static_cast<Register>(definitions_.size()));
  if (fresh) definitions_.emplace_back();
  return it->second;
}

void ValueGraph::find_definitions() {
  block_of_.assign(kernel_.body.size(), 0);
  for (uint32_t b = 0; b < flow_.blocks().size(); ++b) {
    for (uint32_t i = flow_.blocks()[b].begin; i < flow_.blocks()[b].end; ++i) block_of_[i] = b;
  }
  for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
    if (!flow_.reachable(block_of_[i])) continue;
    for_each_destination(kernel_.body[i], [&](const Operand& operand) {
      Definition& d = definitions_[register_of(operand.symbol)];
      ++d.count;
      d.block = block_of_[i];
    });
  }
  for (const Variable& v : kernel_.locals) {
    if (v.space != Space::reg) continue;
    const uint8_t bits = static_cast<uint8_t>(std::min<uint32_t>(type_bits(v.type), 128));
    if (v.reg_count == 0) {
      auto it = registers_.find(v.name);
      if (it != registers_.end()) definitions_[it->second].bits = bits;
      continue;
    }
    for (auto& [name, reg] : registers_) {  // ranges: by name; few prefixes, so this is cheap
      if (name.size() > v.name.size() && name.compare(0, v.name.size(), v.name) == 0 &&
          name.find_first_not_of("0123456789", v.name.size()) == std::string_view::npos)
        definitions_[reg].bits = bits;
    }
  }
}

Symbol ValueGraph::add_node(Node node) {
  if (node.kind != Node::Kind::parameter && node.kind != Node::Kind::variable) node.block = current_block_;
  nodes_.push_back(std::move(node));
  return kFirstNode + static_cast<Symbol>(nodes_.size() - 1);
}

Value ValueGraph::opaque(const std::vector<Value>& from) {
  Node node;
  for (const Value& value : from) {
    if (value.poly.is_loaded()) return loaded();
    if (!value.poly.is_constant()) node.args.push_back({value.poly, value.checks, {}, {}});
  }
  Value result;
  result.poly = Polynomial::of_symbol(add_node(std::move(node)));
  return result;
}

int32_t ValueGraph::add_predicate(PredicateExpression expression) {
  predicates_.push_back(std::move(expression));
  return static_cast<int32_t>(predicates_.size() - 1);
}

int32_t ValueGraph::negate(int32_t predicate) {
  if (predicate < 0) return -1;
  PredicateExpression e;
  e.kind = PredicateExpression::Kind::negation;
  e.first = predicate;
  return add_predicate(std::move(e));
}

int32_t ValueGraph::guard_of(uint32_t instruction) const {
  auto it = guards_.find(instruction);
  return it == guards_.end() ? -1 : it->second;
}

uint32_t ValueGraph::check(const Polynomial& value, uint8_t bits, bool is_signed) {
  uint64_t hash = static_cast<uint64_t>(value.constant) * 31 + bits * 2u + is_signed;
  for (const Term& t : value.terms)
    hash = hash * 1000003 + static_cast<uint64_t>(t.factor) * 7 + t.symbols[0] + t.symbols[1] * 17u;
  for (uint32_t candidate : check_index_[hash]) {
    const Check& c = checks_[candidate];
    if (c.bits == bits && c.is_signed == is_signed && c.value == value) return candidate;
  }
  checks_.push_back({value, bits, is_signed, {}, {}, {}});
  check_index_[hash].push_back(static_cast<uint32_t>(checks_.size() - 1));
  return static_cast<uint32_t>(checks_.size() - 1);
}

void ValueGraph::define(uint32_t block, Register reg, Value value) {
  values_.push_back(std::move(value));
  const uint32_t id = static_cast<uint32_t>(values_.size() - 1);
  current_[key(block, reg)] = id;
  if (definitions_[reg].count == 1) definitions_[reg].value = id;
}

// The value of a register at the end of what has been processed of `block`. SSA on demand: a join that needs
// the register gets a phi, whose arguments are read when all blocks are done.
Value ValueGraph::read(uint32_t block, Register reg) {
  static const Value kUnknown = loaded();
  const Definition& d = definitions_[reg];
  const uint32_t start = block;
  for (;;) {
    auto it = current_.find(key(block, reg));
    if (it != current_.end()) {
      const uint32_t id = it->second;
      if (block != start) current_[key(start, reg)] = id;
      return values_[id];
    }
    if (d.count == 0) return kUnknown;
    if (d.count == 1 && d.value != UINT32_MAX && d.block != block && flow_.dominates(d.block, block))
      return values_[d.value];
    const auto& predecessors = flow_.blocks()[block].predecessors;
    // Nothing defined it on the way from the entry; an entry that is also a loop head has one more way in
    // than edges.
    if (predecessors.empty() || block == 0) return kUnknown;
    if (predecessors.size() == 1) {
      block = predecessors[0];
      continue;
    }
    if (predecessors.size() > kMaxPhiArguments || nodes_.size() > kMaxNodes) return kUnknown;
    Node node;
    node.kind = Node::Kind::phi;
    const Symbol symbol = add_node(std::move(node));
    nodes_.back().block = block;
    pending_.push_back({symbol - kFirstNode, block, reg});
    Value value;
    value.poly = Polynomial::of_symbol(symbol);
    values_.push_back(std::move(value));
    const uint32_t id = static_cast<uint32_t>(values_.size() - 1);
    current_[key(block, reg)] = id;
    if (block != start) current_[key(start, reg)] = id;
    return values_[id];
  }
}

bool ValueGraph::build(std::string& reason) {
  find_definitions();
  block_guard_.assign(flow_.blocks().size(), -1);
  Transfer transfer(*this);
  for (uint32_t block : flow_.order()) {
    current_block_ = block;
    for (uint32_t i = flow_.blocks()[block].begin; i < flow_.blocks()[block].end; ++i) {
      if (!transfer.run(block, i, reason)) return false;
      if (nodes_.size() > kMaxNodes) {
        reason = "kernel is too large to analyse";
        return false;
      }
    }
  }
  fill_phis();
  simplify_phis();
  fill_local_loads();
  return true;
}

void ValueGraph::fill_phis() {
  for (size_t i = 0; i < pending_.size(); ++i) {  // grows while it runs
    const PendingPhi phi = pending_[i];
    PhiPlace& place = places_[phi.node];
    place.block = phi.block;
    place.predecessors = flow_.blocks()[phi.block].predecessors;
    std::vector<Alternative> args;
    for (uint32_t predecessor : place.predecessors) {
      const Value value = read(predecessor, phi.reg);
      args.push_back({value.poly, value.checks, {}, {}});
    }
    nodes_[phi.node].args = std::move(args);
  }
}

void ValueGraph::simplify_phis() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const PendingPhi& phi : pending_) {
      if (replaced_.count(phi.node) != 0) continue;
      const Polynomial self = Polynomial::of_symbol(kFirstNode + phi.node);
      Polynomial only;
      std::vector<uint32_t> checks;
      bool first = true, same = true;
      for (const Alternative& arg : nodes_[phi.node].args) {
        Polynomial poly = arg.poly;
        std::vector<uint32_t> arg_checks = arg.checks;
        resolve(poly, arg_checks);
        merge_checks(checks, arg_checks);  // also of "itself, if it fits 8 bits"
        if (poly == self) continue;
        if (first) {
          only = poly;
          first = false;
        } else if (!(poly == only)) {
          same = false;
          break;
        }
      }
      // A replacement that mentions the phi itself (i = i + 0 * i) would not end.
      for (const Term& t : only.terms) {
        for (uint32_t s = 0; s < t.degree; ++s) same = same && t.symbols[s] != kFirstNode + phi.node;
      }
      if (!same || first) continue;
      replaced_[phi.node] = {only, checks};
      changed = true;
    }
  }
  resolve_all();
}

void ValueGraph::resolve_all() {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    for (Alternative& arg : nodes_[i].args) {
      resolve(arg.poly, arg.checks);
      for (Bound& bound : arg.uppers) resolve(bound.value, bound.checks);
    }
  }
  for (size_t i = 0; i < checks_.size(); ++i) {
    resolve(checks_[i].value, checks_[i].also);
  }
  for (RawAccess& access : accesses_) resolve(access.address.poly, access.address.checks);
  for (PredicateExpression& e : predicates_) {
    resolve(e.a.poly, e.a.checks);
    resolve(e.b.poly, e.b.checks);
  }
  for (LocalStore& store : local_stores_) resolve(store.value.poly, store.value.checks);
}

bool ValueGraph::substitute(Polynomial& poly, Symbol symbol, const Polynomial& by) {
  Polynomial result = Polynomial::of(poly.constant);
  for (const Term& t : poly.terms) {
    Polynomial product = Polynomial::of(t.factor);
    for (uint32_t s = 0; s < t.degree; ++s) {
      Polynomial next;
      if (!Polynomial::multiply(product, t.symbols[s] == symbol ? by : Polynomial::of_symbol(t.symbols[s]),
                                next))
        return false;
      product = std::move(next);
    }
    if (!result.add(product, 1)) return false;
  }
  poly = std::move(result);
  return true;
}

void ValueGraph::resolve(Polynomial& poly, std::vector<uint32_t>& checks) const {
  for (int rounds = 0; rounds < 64; ++rounds) {
    const Replacement* replacement = nullptr;
    Symbol symbol = 0;
    for (const Term& t : poly.terms) {
      for (uint32_t s = 0; s < t.degree && !replacement; ++s) {
        if (t.symbols[s] < kFirstNode) continue;
        auto it = replaced_.find(t.symbols[s] - kFirstNode);
        if (it == replaced_.end()) continue;
        replacement = &it->second;
        symbol = t.symbols[s];
      }
    }
    if (!replacement) return;
    if (!substitute(poly, symbol, replacement->poly))
      return;  // too large written out: the phi itself says the same
    merge_checks(checks, replacement->checks);
  }
}

// A load from local memory gives what any store left there that may overlap it, in whatever order they run.
void ValueGraph::fill_local_loads() {
  for (const LocalLoad& load : local_loads_) {
    std::vector<Alternative>& args = nodes_[load.node].args;
    for (const LocalStore& store : local_stores_) {
      if (store.variable != UINT32_MAX && store.variable != load.variable) continue;
      const bool apart =
          store.variable != UINT32_MAX && store.exact && load.exact && store.bytes != 0 &&
          (store.offset + store.bytes <= load.offset || load.offset + load.bytes <= store.offset);
      if (apart || store.value.poly.is_constant()) continue;
      args.push_back({store.value.poly, store.value.checks, {}, {}});
    }
  }
}

const ValueGraph::PhiPlace* ValueGraph::phi_place(uint32_t node) const {
  auto it = places_.find(node);
  return it == places_.end() ? nullptr : &it->second;
}

}  // namespace shunt::ptx::access
