#include "runtime/ptx/access/transfer.h"

#include <algorithm>
#include <unordered_set>

namespace shunt::ptx::access {
namespace {

using Set = std::unordered_set<std::string_view>;

// Results depend on operands only (or on other lanes' same registers), no memory but shared. Leaked: no
// destructors at exit.
const Set& pure_opcodes() {
  static const Set& set = *new Set{
      "abs",         "activemask", "add",       "addc",       "and",    "bfe",      "bfi",
      "bfind",       "bmsk",       "brev",      "clz",        "cnot",   "copysign", "cos",
      "cvt",         "cvta",       "div",       "dp2a",       "dp4a",   "elect",    "ex2",
      "fma",         "fns",        "isspacep",  "getctarank", "lg2",    "lop3",     "mad",
      "mad24",       "madc",       "mapa",      "match",      "max",    "min",      "mma",
      "mov",         "movmatrix",  "mul",       "mul24",      "neg",    "not",      "or",
      "popc",        "prmt",       "rcp",       "redux",      "rem",    "rsqrt",    "sad",
      "selp",        "set",        "setp",      "shf",        "shfl",   "shl",      "shr",
      "sin",         "slct",       "sqrt",      "sub",        "subc",   "szext",    "tanh",
      "testp",       "vote",       "xor",       "vadd",       "vadd2",  "vadd4",    "vsub",
      "vsub2",       "vsub4",      "vmin",      "vmin2",      "vmin4",  "vmax",     "vmax2",
      "vmax4",       "vabsdiff",   "vabsdiff2", "vabsdiff4",  "vavrg2", "vavrg4",   "vmad",
      "vset",        "vset2",      "vset4",     "vshl",       "vshr",   "istypep",  "clusterlaunchcontrol",
      "createpolicy"};
  return set;
}

// No result that matters here and no global memory.
const Set& silent_opcodes() {
  static const Set& set =
      *new Set{"bra",       "brx",           "ret",       "exit",     "trap",       "brkpt",
               "bar",       "barrier",       "nanosleep", "pmevent",  "setmaxnreg", "prefetch",
               "prefetchu", "applypriority", "mbarrier",  "stmatrix", "ldmatrix"};
  return set;
}

bool is_integer(Type type) { return type >= Type::b8 && type <= Type::s64 && type != Type::b128; }
bool is_signed_type(Type type) { return type >= Type::s8 && type <= Type::s64; }

bool system_scope(const Instruction& in) { return in.has("sys"); }

}  // namespace

void merge_checks(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
  if (from.empty()) return;
  std::vector<uint32_t> merged;
  std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(merged));
  into = std::move(merged);
}

Value Transfer::loaded() {
  Value value;
  value.poly = Polynomial::of_symbol(kLoaded);
  return value;
}
Value Transfer::number(int64_t n) {
  Value value;
  value.poly = Polynomial::of(n);
  return value;
}

bool Transfer::refuse(std::string& reason, const std::string& what) const {
  reason = "line " + std::to_string(in_->line) + ": " + what;
  return false;
}

bool Transfer::run(uint32_t block, uint32_t index, std::string& reason) {
  in_ = &graph_.kernel_.body[index];
  block_ = block;
  index_ = index;
  const Type type = in_->types.empty() ? Type::none : in_->types[0];
  bits_ = type_bits(type);
  signed_ = is_signed_type(type);

  if (!in_->guard.empty()) {
    int32_t guard = graph_.read(block, graph_.register_of(in_->guard)).predicate;
    if (in_->guard_negated) guard = graph_.negate(guard);
    graph_.guards_[index] = guard;
    if (index + 1 == graph_.flow_.blocks()[block].end) graph_.block_guard_[block] = guard;
  }
  const std::string& op = in_->opcode;
  if (op == "ld" || op == "ldu" || op == "st" || op == "atom" || op == "red" || op == "cp" || op == "wmma" ||
      op == "discard" || op == "st.bulk")
    return memory(reason);
  if (op == "fence" || op == "membar") {
    // A fence for the whole system announces data to somebody outside; within the device it orders the
    // kernel's own threads.
    if (system_scope(*in_) || in_->has("proxy")) return refuse(reason, "system-wide fence");
    return true;
  }
  if (op == "wgmma") {
    set_all(loaded());
    return true;
  }
  if (pure_opcodes().count(op) != 0) return computed(reason);
  if (silent_opcodes().count(op) != 0) {
    set_all(loaded());
    return true;
  }
  if (op == "call") return refuse(reason, "call");
  if (op == "tex" || op == "tld4" || op == "suld" || op == "sust" || op == "sured" || op == "txq" ||
      op == "suq")
    return refuse(reason, "texture or surface access");
  return refuse(reason, "instruction '" + op + "' is not understood by the analysis");
}

void Transfer::set(const Operand& destination, Value value) {
  if (destination.kind != Operand::Kind::reg) return;
  const ValueGraph::Register reg = graph_.register_of(destination.symbol);
  if (destination.selector != 0) value = loaded();  // a part of the register
  if (!in_->guard.empty()) value = choice(value, graph_.read(block_, reg));
  graph_.define(block_, reg, std::move(value));
}

void Transfer::set_all(const Value& value) {
  for_each_destination(*in_, [&](const Operand& destination) { set(destination, value); });
}

Value Transfer::choice(const Value& a, const Value& b) {
  if (a.poly == b.poly) {
    Value both = a;
    merge_checks(both.checks, b.checks);
    if (a.predicate != b.predicate) both.predicate = -1;
    return both;
  }
  return operation(Node::Kind::choice, {a, b});
}

Value Transfer::operation(Node::Kind kind, std::vector<Value> args, uint32_t amount) {
  Node node;
  node.kind = kind;
  node.amount = amount;
  for (const Value& value : args) {
    if (value.poly.is_loaded()) return loaded();
    node.args.push_back({value.poly, value.checks, {}, {}});
  }
  Value result;
  result.poly = Polynomial::of_symbol(graph_.add_node(std::move(node)));
  return result;
}

// The integer that a register holds is the polynomial only if that lies in the register's range.
Value Transfer::narrow(Value value, uint32_t bits, bool is_signed) {
  if (value.poly.is_loaded()) return loaded();
  if (value.poly.is_constant()) {
    const int64_t c = value.poly.constant;
    if (bits >= 64 ? (is_signed || c >= 0)
                   : (is_signed ? c >= -(int64_t{1} << (bits - 1)) && c < int64_t{1} << (bits - 1)
                                : c >= 0 && c < int64_t{1} << bits))
      return value;
  }
  merge_checks(value.checks, {graph_.check(value.poly, static_cast<uint8_t>(bits), is_signed)});
  return value;
}

Symbol Transfer::variable(std::string_view name) {
  auto it = graph_.variable_nodes_.find(name);
  if (it != graph_.variable_nodes_.end()) return it->second;
  VariableInfo info;
  info.name = name;
  for (uint32_t i = 0; i < graph_.kernel_.params.size(); ++i) {
    if (graph_.kernel_.params[i].name == name) {
      info.space = Space::param;
      info.parameter = i;
    }
  }
  for (const Variable& v : graph_.kernel_.locals) {
    if (info.space == Space::none && v.name == name) info.space = v.space;
  }
  for (const Variable& v : graph_.module_.variables) {
    if (info.space == Space::none && v.name == name) info.space = v.space;
  }
  Symbol symbol = kLoaded;  // a function, a label
  if (info.space != Space::none) {
    Node node;
    node.kind = Node::Kind::variable;
    node.index = static_cast<uint32_t>(graph_.variables_.size());
    graph_.variables_.push_back(info);
    symbol = graph_.add_node(std::move(node));
  }
  graph_.variable_nodes_[name] = symbol;
  return symbol;
}

Symbol Transfer::parameter(uint32_t index, uint32_t offset, uint32_t bytes, bool is_signed) {
  const uint64_t key =
      static_cast<uint64_t>(index) << 40 | static_cast<uint64_t>(offset) << 8 | bytes << 1 | is_signed;
  auto it = graph_.parameter_nodes_.find(key);
  if (it != graph_.parameter_nodes_.end()) return it->second;
  Node node;
  node.kind = Node::Kind::parameter;
  node.index = index;
  node.offset = offset;
  node.bytes = static_cast<uint8_t>(bytes);
  node.is_signed = is_signed;
  return graph_.parameter_nodes_[key] = graph_.add_node(std::move(node));
}

Value Transfer::operand(const Operand& o, uint32_t bits, bool is_signed) {
  switch (o.kind) {
    case Operand::Kind::reg:
      return o.selector != 0 ? loaded() : graph_.read(block_, graph_.register_of(o.symbol));
    case Operand::Kind::imm_int:
      // As the signed integer of the operation's width: what the polynomials count in.
      if (bits > 0 && bits < 64) {
        const uint64_t mask = (uint64_t{1} << bits) - 1, sign = uint64_t{1} << (bits - 1);
        const uint64_t u = static_cast<uint64_t>(o.imm) & mask;
        return number(is_signed || (u & sign) == 0 ? static_cast<int64_t>((u ^ sign) - sign)
                                                   : static_cast<int64_t>(u));
      }
      return number(o.imm);
    case Operand::Kind::sreg: {
      static constexpr std::string_view kNames[] = {
          "%tid.x",  "%tid.y",  "%tid.z",    "%ctaid.x",  "%ctaid.y",  "%ctaid.z", "%ntid.x",
          "%ntid.y", "%ntid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid"};
      for (Symbol s = 0; s < std::size(kNames); ++s) {
        if (o.symbol != kNames[s]) continue;
        Value value;
        value.poly = Polynomial::of_symbol(s);
        return value;
      }
      // Environment registers hold addresses that the driver chose; the others are plain numbers.
      if (o.symbol.compare(0, 7, "%envreg") == 0) return loaded();
      return graph_.opaque({});
    }
    case Operand::Kind::symbol: {
      Value value;
      value.poly = Polynomial::of_symbol(variable(o.symbol));
      if (!value.poly.add(Polynomial::of(o.imm), 1)) return loaded();
      return value;
    }
    case Operand::Kind::imm_f32:
    case Operand::Kind::imm_f64:
      return number(0);  // no address is made of it
    default:
      return loaded();
  }
}

Value Transfer::address(const Operand& o) {
  if (o.kind != Operand::Kind::address || o.selector != 0) return loaded();
  Value value;
  if (o.symbol.empty()) return loaded();  // absolute
  if (o.base_register)
    value = graph_.read(block_, graph_.register_of(o.symbol));
  else
    value.poly = Polynomial::of_symbol(variable(o.symbol));
  value.predicate = -1;
  if (!value.poly.add(Polynomial::of(o.imm), 1)) return loaded();
  return value;
}

Value Transfer::combine(const Value& a, const Value& b, int64_t scale) {
  if (a.poly.is_loaded() || b.poly.is_loaded()) return loaded();
  Value result = a;
  result.predicate = -1;
  if (!result.poly.add(b.poly, scale)) return graph_.opaque({a, b});
  merge_checks(result.checks, b.checks);
  return result;
}

Value Transfer::product(const Value& a, const Value& b) {
  if (a.poly.is_loaded() || b.poly.is_loaded()) return loaded();
  Value result;
  if (!Polynomial::multiply(a.poly, b.poly, result.poly)) return graph_.opaque({a, b});
  result.checks = a.checks;
  merge_checks(result.checks, b.checks);
  return result;
}

bool Transfer::computed(std::string& reason) {
  if (in_->operands.empty()) return true;
  if (!in_->types.empty() && in_->types.back() == Type::pred) {
    // Logic on predicates and moves between them.
    if (!predicate_operation()) set_all(loaded());
    return true;
  }
  if (in_->opcode == "setp") {
    if (!predicate_operation()) set_all(loaded());
    return true;
  }
  const Type type = in_->types.empty() ? Type::none : in_->types[0];
  if (in_->opcode == "mov") {
    const Operand* source_operand = in_->operands.size() > 1 ? &in_->operands[1] : nullptr;
    if (source_operand != nullptr && in_->operands[0].kind == Operand::Kind::vector) {
      // Unpacking: the low part is the value modulo its width, the rest is shifted down.
      const auto& parts = in_->operands[0].elements;
      const Value whole = source_operand->kind == Operand::Kind::reg ? source(1) : loaded();
      const uint32_t part_bits = parts.empty() ? 0 : bits_ / static_cast<uint32_t>(parts.size());
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i == 0 && is_integer(type))
          set(parts[i], whole);
        else if (is_integer(type) && bits_ <= 64)
          set(parts[i], operation(Node::Kind::shift_right, {narrow(whole, bits_, false)},
                                  part_bits * static_cast<uint32_t>(i)));
        else
          set(parts[i], graph_.opaque({whole}));
      }
      return true;
    }
    set(in_->operands[0], move());
    return true;
  }
  const bool single = in_->operands[0].kind == Operand::Kind::reg;
  if (single && is_integer(type)) {
    const Value value = integer_operation(in_->opcode);
    set(in_->operands[0], value);
    return true;
  }
  // Everything else: some number made of the operands.
  std::vector<Value> from;
  for (size_t i = 1; i < in_->operands.size(); ++i) {
    const Operand& o = in_->operands[i];
    if (o.kind == Operand::Kind::vector) {
      for (const Operand& element : o.elements) from.push_back(operand(element, 64, true));
    } else if (o.kind == Operand::Kind::reg || o.kind == Operand::Kind::sreg ||
               o.kind == Operand::Kind::symbol) {
      from.push_back(operand(o, 64, true));
    } else if (o.kind == Operand::Kind::address || o.kind == Operand::Kind::tex_address) {
      return refuse(reason,
                    "instruction '" + in_->opcode + "' with an address is not understood by the analysis");
    }
  }
  const Value value = graph_.opaque(from);
  set_all(value);
  return true;
}

Value Transfer::move() {
  if (in_->operands.size() < 2) return loaded();
  const Operand& from = in_->operands[1];
  if (from.kind == Operand::Kind::vector) {  // packing
    std::vector<Value> parts;
    for (const Operand& element : from.elements) parts.push_back(operand(element, 32, true));
    // {x, 0} of a non-negative x, and the halves of one parameter word put together again.
    if (parts.size() == 2 && bits_ == 64) {
      if (parts[1].poly == Polynomial::of(0) && !parts[0].poly.is_loaded())
        return narrow(parts[0], 32, false);
      if (parts[0].poly.terms.size() == 1 && parts[1].poly.terms.size() == 1 && parts[0].poly.constant == 0 &&
          parts[1].poly.constant == 0) {
        const Symbol low = parts[0].poly.terms[0].symbols[0], high = parts[1].poly.terms[0].symbols[0];
        const bool plain =
            parts[0].poly == Polynomial::of_symbol(low) && parts[1].poly == Polynomial::of_symbol(high);
        if (plain && low >= kFirstNode && high >= kFirstNode) {
          const Node& l = graph_.node(low);
          const Node& h = graph_.node(high);
          if (l.kind == Node::Kind::parameter && h.kind == Node::Kind::parameter && l.index == h.index &&
              l.bytes == 4 && h.bytes == 4 && h.offset == l.offset + 4) {
            Value value;
            value.poly = Polynomial::of_symbol(parameter(l.index, l.offset, 8, true));
            return value;
          }
        }
      }
    }
    return graph_.opaque(parts);
  }
  return operand(from, bits_, true);
}

Value Transfer::convert() {
  if (in_->types.size() != 2) return loaded();
  const Type to = in_->types[0], from = in_->types[1];
  const Value value = operand(in_->operands[1], type_bits(from), is_signed_type(from));
  if (value.poly.is_loaded()) return loaded();
  if (!is_integer(to) || !is_integer(from) || in_->has("sat")) return graph_.opaque({value});
  // Narrowing keeps the value modulo the new width. Widening needs the integer itself, and so does a
  // narrowing whose result is written into a wider register.
  uint32_t register_bits = 0;
  if (in_->operands[0].kind == Operand::Kind::reg)
    register_bits = graph_.definitions_[graph_.register_of(in_->operands[0].symbol)].bits;
  Value result = value;
  result.predicate = -1;
  if (type_bits(to) > type_bits(from))
    result = narrow(std::move(result), type_bits(from), is_signed_type(from));
  if (register_bits == 0 || register_bits > type_bits(to))
    result = narrow(std::move(result), type_bits(to), is_signed_type(to));
  return result;
}

Value Transfer::integer_operation(const std::string& op) {
  const uint32_t bits = bits_;
  const bool is_signed = signed_;
  auto ring = [&](size_t i) {
    return operand(in_->operands[i], bits, true);
  };  // for arithmetic modulo 2^bits
  auto exact = [&](size_t i) { return narrow(source(i), bits, is_signed); };
  auto exact_unsigned = [&](size_t i) { return narrow(operand(in_->operands[i], bits, false), bits, false); };
  auto immediate = [&](size_t i, int64_t& value) {
    const Value v = source(i);
    value = v.poly.constant;
    return v.poly.is_constant();
  };
  int64_t amount = 0;
  const size_t count = in_->operands.size();
  auto anything = [&] {
    std::vector<Value> from;
    for (size_t i = 1; i < count; ++i) from.push_back(source(i));
    return graph_.opaque(from);
  };
  if (in_->has("sat") || in_->has("cc")) return anything();
  if (op == "cvta" && count >= 2) {
    Value v = source(1);
    v.predicate = -1;
    return v;
  }
  if (op == "cvt" && count >= 2) return convert();
  if (op == "add" && count >= 3) return combine(ring(1), ring(2), 1);
  if (op == "sub" && count >= 3) return combine(ring(1), ring(2), -1);
  if (op == "neg" && count >= 2) return combine(number(0), ring(1), -1);
  if (op == "not" && count >= 2) return combine(number(-1), ring(1), -1);
  if ((op == "mul" || op == "mad") && count >= (op == "mul" ? 3u : 4u)) {
    Value p;
    if (in_->has("lo"))
      p = product(ring(1), ring(2));
    else if (in_->has("wide"))
      p = product(exact(1), exact(2));
    else if (in_->has("hi") && op == "mul" && bits <= 32)
      return operation(Node::Kind::multiply_high, {exact(1), exact(2)}, bits);
    else
      return anything();
    if (op == "mul") return p;
    return combine(p, operand(in_->operands[3], in_->has("wide") ? bits * 2 : bits, true), 1);
  }
  if (op == "shl" && count >= 3 && immediate(2, amount)) {
    if (amount < 0 || amount >= bits) return number(0);
    if (amount < 62) return product(ring(1), number(int64_t{1} << amount));
    return anything();
  }
  if (op == "shr" && count >= 3 && immediate(2, amount)) {
    if (amount < 0 || amount >= bits)
      amount = bits - 1;  // an unsigned value then is 0, which the range still contains
    const bool arithmetic = is_signed;
    return operation(Node::Kind::shift_right, {narrow(source(1), bits, arithmetic)},
                     static_cast<uint32_t>(amount));
  }
  if (op == "and" && count >= 3) {
    // x & ~15: the value rounded down.
    const Value mask = exact_unsigned(2);
    if (mask.poly.is_constant()) {
      const uint64_t width = bits >= 64 ? ~0ull : (1ull << bits) - 1;
      const uint64_t cleared = ~static_cast<uint64_t>(mask.poly.constant) & width;
      if (cleared != 0 && cleared < 1u << 20 && (cleared & (cleared + 1)) == 0)
        return operation(Node::Kind::align_down, {exact_unsigned(1)},
                         static_cast<uint32_t>(__builtin_popcountll(cleared)));
    }
  }
  if (op == "and" && count >= 3) return operation(Node::Kind::mask, {exact_unsigned(1), exact_unsigned(2)});
  if ((op == "or" || op == "xor") && count >= 3)
    return operation(Node::Kind::merge, {exact_unsigned(1), exact_unsigned(2)});
  if (op == "div" && count >= 3) return operation(Node::Kind::divide, {exact(1), exact(2)});
  if (op == "rem" && count >= 3) return operation(Node::Kind::remainder, {exact(1), exact(2)});
  if (op == "min" && count >= 3) return operation(Node::Kind::minimum, {exact(1), exact(2)});
  if (op == "max" && count >= 3) return operation(Node::Kind::maximum, {exact(1), exact(2)});
  if (op == "selp" && count >= 4) return choice(source(1), source(2));
  if (op == "bfe" && count >= 4 && !is_signed) {
    int64_t start = 0, length = 0;
    if (immediate(2, start) && immediate(3, length) && length >= 0 && length < 31) {
      Value v = anything();
      if (v.poly.is_loaded()) return v;
      graph_.nodes_.back().kind = Node::Kind::below;
      graph_.nodes_.back().amount = (1u << length) - 1;
      return v;
    }
  }
  if (op == "popc" || op == "clz") {
    Value v = anything();
    if (v.poly.is_loaded()) return v;
    graph_.nodes_.back().kind = Node::Kind::below;
    graph_.nodes_.back().amount = 64;
    return v;
  }
  return anything();
}

bool Transfer::predicate_operation() {
  using Kind = PredicateExpression::Kind;
  // One bit carries no address, wherever it came from: what depends on it is like what depends on a branch.
  auto value_of = [](int32_t predicate) {
    Value v = number(0);
    v.predicate = predicate;
    return v;
  };
  auto predicate_of = [&](const Operand& o) {
    if (o.kind != Operand::Kind::reg) return int32_t{-1};
    const int32_t p = graph_.read(block_, graph_.register_of(o.symbol)).predicate;
    return o.negated ? graph_.negate(p) : p;
  };
  auto both = [&](Kind kind, int32_t p, int32_t q) {
    // A conjunction with an unknown still implies its known part.
    PredicateExpression e;
    e.kind = kind;
    e.first = p;
    e.second = q;
    return graph_.add_predicate(std::move(e));
  };
  const std::string& op = in_->opcode;
  const auto& operands = in_->operands;
  if (op == "mov" && operands.size() == 2) {
    set(operands[0], value_of(predicate_of(operands[1])));
    return true;
  }
  if (op == "not" && operands.size() == 2) {
    set(operands[0], value_of(graph_.negate(predicate_of(operands[1]))));
    return true;
  }
  if ((op == "and" || op == "or") && operands.size() == 3) {
    set(operands[0], value_of(both(op == "and" ? Kind::conjunction : Kind::disjunction,
                                   predicate_of(operands[1]), predicate_of(operands[2]))));
    return true;
  }
  if (op != "setp" || operands.size() < 3 || in_->types.empty()) return false;
  const Type type = in_->types[0];
  if (!is_integer(type)) return false;
  const std::string& comparison = in_->modifiers[0];
  const bool unsigned_name =
      comparison == "lo" || comparison == "ls" || comparison == "hi" || comparison == "hs";
  const bool is_signed = signed_ && !unsigned_name;
  PredicateExpression e;
  e.bits = static_cast<uint8_t>(bits_);
  e.is_signed = is_signed;
  e.a = operand(operands[1], bits_, is_signed);
  e.b = operand(operands[2], bits_, is_signed);
  bool negated = false;
  if (comparison == "lt" || comparison == "lo")
    e.kind = Kind::less;
  else if (comparison == "le" || comparison == "ls")
    e.kind = Kind::less_equal;
  else if (comparison == "ge" || comparison == "hs")
    e.kind = Kind::less, negated = true;
  else if (comparison == "gt" || comparison == "hi")
    e.kind = Kind::less_equal, negated = true;
  else if (comparison == "eq")
    e.kind = Kind::equal;
  else if (comparison == "ne")
    e.kind = Kind::equal, negated = true;
  else
    return false;
  // A loaded operand makes the comparison worthless, but not what it is combined with.
  if (e.a.poly.is_loaded() || e.b.poly.is_loaded()) e.kind = Kind::unknown;
  int32_t p = graph_.add_predicate(std::move(e));
  if (negated) p = graph_.negate(p);
  int32_t q = graph_.negate(p);
  if (in_->has("and") || in_->has("or")) {
    if (operands.size() < 4) return false;
    const Kind kind = in_->has("and") ? Kind::conjunction : Kind::disjunction;
    const int32_t with = predicate_of(operands[3]);
    p = both(kind, p, with);
    q = both(kind, q, with);
  } else if (in_->has("xor")) {
    p = q = -1;
  }
  if (operands[0].kind == Operand::Kind::pair) {
    set(operands[0].elements[0], value_of(p));
    set(operands[0].elements[1], value_of(q));
  } else {
    set(operands[0], value_of(p));
  }
  return true;
}

}  // namespace shunt::ptx::access
