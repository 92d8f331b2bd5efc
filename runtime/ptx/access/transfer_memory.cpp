// Loads, stores, atomics, asynchronous copies: which memory an instruction reaches, and what a load can give.
#include "runtime/ptx/access/transfer.h"

namespace shunt::ptx::access {
namespace {

constexpr int64_t kMaxOffset = int64_t{1} << 40;  // of exact places in variables

bool is_shared(const std::string& modifier) { return modifier.compare(0, 6, "shared") == 0; }

}  // namespace

Space Transfer::space_of() const {
  for (const std::string& m : in_->modifiers) {
    if (m == "global") return Space::global;
    if (is_shared(m)) return Space::shared;
    if (m == "local") return Space::local;
    if (m == "const") return Space::constant;
    if (m == "param" || m.compare(0, 7, "param::") == 0) return Space::param;
  }
  return Space::none;
}

uint32_t Transfer::access_bytes() const {
  uint32_t count = 1;
  for (const std::string& m : in_->modifiers) {
    if (m == "v2")
      count = 2;
    else if (m == "v4")
      count = 4;
    else if (m == "v8")
      count = 8;
  }
  return (bits_ + 7) / 8 * count;
}

void Transfer::touch(AccessMode mode, Space space, const Value& address, uint32_t bytes) {
  RawAccess access;
  access.instruction = index_;
  access.mode = mode;
  access.space = space;
  access.address = address;
  access.bytes = bytes;
  graph_.accesses_.push_back(std::move(access));
}

bool Transfer::memory(std::string& reason) {
  const std::string& op = in_->opcode;
  if (op == "ld" || op == "ldu") return load(reason);
  if (op == "st") return store(reason);
  if (op == "atom" || op == "red") return atomic(reason);
  if (op == "cp") return async_copy(reason);
  const Space space = space_of();
  if (op == "discard") {  // its contents become undefined: as good as written
    if (in_->operands.empty()) return refuse(reason, "malformed discard");
    touch(AccessMode::written, space, address(in_->operands[0]), 128);
    return true;
  }
  // wmma: a matrix whose rows lie a stride apart; its extent is not followed.
  if (in_->has("mma")) {
    set_all(loaded());
    return true;
  }
  const bool is_store = in_->has("store");
  if (!is_store) set_all(loaded());
  if (space == Space::shared) return true;
  const size_t at = is_store ? 0 : 1;
  if (in_->operands.size() <= at) return refuse(reason, "malformed wmma");
  const Value a = address(in_->operands[at]);
  touch(is_store ? AccessMode::written : AccessMode::read, space, a, 0);
  if (is_store && space != Space::global) graph_.local_stores_.push_back({UINT32_MAX, false, 0, 0, loaded()});
  return true;
}

// The variable that an address is made of directly, if it is one of local memory or parameters.
static const Node* direct_variable(const ValueGraph& graph, const Polynomial& poly, Space space,
                                   const std::vector<VariableInfo>& variables, bool& only) {
  const Node* found = nullptr;
  only = poly.terms.size() == 1 && poly.constant > -kMaxOffset && poly.constant < kMaxOffset;
  for (const Term& t : poly.terms) {
    if (t.degree != 1 || t.factor != 1 || t.symbols[0] < kFirstNode) continue;
    const Node& node = graph.node(t.symbols[0]);
    if (node.kind == Node::Kind::variable && variables[node.index].space == space) found = &node;
  }
  return found;
}

static bool has_parameter(const ValueGraph& graph, const Polynomial& poly) {
  for (const Term& t : poly.terms) {
    if (t.degree == 1 && t.factor == 1 && t.symbols[0] >= kFirstNode &&
        graph.node(t.symbols[0]).kind == Node::Kind::parameter)
      return true;
  }
  return false;
}

bool Transfer::load(std::string& reason) {
  if (in_->operands.size() < 2) return refuse(reason, "malformed load");
  const Space space = space_of();
  const uint32_t bytes = access_bytes();
  if (space == Space::shared) {
    set_all(loaded());
    return true;
  }
  if (in_->has("volatile") || in_->has("acquire") || in_->has("mmio") ||
      (in_->has("relaxed") && !in_->has("cta")))
    return refuse(reason, "volatile or synchronising load: the kernel may wait for another one");
  const Value a = address(in_->operands[1]);
  // One value per element of the destination, at rising offsets.
  const Operand& destination = in_->operands[0];
  std::vector<const Operand*> elements;
  if (destination.kind == Operand::Kind::vector) {
    for (const Operand& element : destination.elements) elements.push_back(&element);
  } else {
    elements.push_back(&destination);
  }
  const uint32_t each = (bits_ + 7) / 8;
  bool only = false;
  if (space == Space::param || space == Space::none) {
    if (const Node* node = direct_variable(graph_, a.poly, Space::param, graph_.variables_, only)) {
      const uint32_t index = graph_.variables_[node->index].parameter;
      const int64_t offset = only ? a.poly.constant : 0;
      const uint64_t size = graph_.kernel_.params[index].size_bytes();
      for (size_t i = 0; i < elements.size(); ++i) {
        const int64_t at = offset + static_cast<int64_t>(i) * each;
        const bool inside = only && at >= 0 && static_cast<uint64_t>(at) + each <= size && each <= 8;
        uint32_t register_bits = 0;
        if (elements[i]->kind == Operand::Kind::reg)
          register_bits = graph_.definitions_[graph_.register_of(elements[i]->symbol)].bits;
        // Loaded into a wider register, unsigned and bit types are extended with zeros.
        const bool is_signed = signed_ || register_bits == each * 8;
        Value v;
        v.poly = Polynomial::of_symbol(
            parameter(index, inside ? static_cast<uint32_t>(at) : 0, inside ? each : 0, is_signed));
        set(*elements[i], v);
      }
      return true;
    }
    if (space == Space::param) {
      set_all(loaded());
      return true;
    }
  }
  if (space == Space::local || space == Space::none) {
    if (const Node* node = direct_variable(graph_, a.poly, Space::local, graph_.variables_, only)) {
      const uint32_t index = node->index;
      const int64_t offset = only ? a.poly.constant : 0;
      for (size_t i = 0; i < elements.size(); ++i) {
        Node result;
        result.kind = Node::Kind::local_load;
        Value v;
        v.poly = Polynomial::of_symbol(graph_.add_node(std::move(result)));
        graph_.local_loads_.push_back({static_cast<uint32_t>(graph_.nodes_.size() - 1), index, only,
                                       offset + static_cast<int64_t>(i) * each, each});
        set(*elements[i], v);
      }
      return true;
    }
    if (space == Space::local) {
      set_all(loaded());
      return true;
    }
  }
  touch(AccessMode::read, space, a, bytes);
  set_all(loaded());
  return true;
}

bool Transfer::store(std::string& reason) {
  if (in_->operands.size() < 2) return refuse(reason, "malformed store");
  const Space space = space_of();
  if (space == Space::shared) return true;
  if (in_->has("async") || in_->has("bulk")) return refuse(reason, "asynchronous store");
  if (in_->has("volatile") || in_->has("mmio") || in_->has("sys") ||
      (in_->has("release") && !in_->has("cta")))
    return refuse(reason, "volatile or synchronising store: another kernel may wait for it");
  if (space == Space::param) return true;  // arguments of a call, which is refused where it is made
  const Value a = address(in_->operands[0]);
  bool only = false;
  const Node* node = direct_variable(graph_, a.poly, Space::local, graph_.variables_, only);
  const bool may_be_local =
      space == Space::local || (space == Space::none && (node != nullptr || !has_parameter(graph_, a.poly)));
  if (may_be_local) {
    const uint32_t each = (bits_ + 7) / 8;
    const Operand& from = in_->operands[1];
    const size_t count = from.kind == Operand::Kind::vector ? from.elements.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      ValueGraph::LocalStore store;
      store.value = operand(from.kind == Operand::Kind::vector ? from.elements[i] : from, bits_, true);
      store.variable = node != nullptr ? node->index : UINT32_MAX;
      store.exact = node != nullptr && only;
      store.offset = (only ? a.poly.constant : 0) + static_cast<int64_t>(i) * each;
      store.bytes = each;
      graph_.local_stores_.push_back(std::move(store));
    }
    if (space == Space::local || node != nullptr) return true;
  }
  touch(AccessMode::written, space, a, access_bytes());
  return true;
}

bool Transfer::atomic(std::string& reason) {
  const bool has_result = in_->opcode == "atom";
  const size_t at = has_result ? 1 : 0;
  if (has_result) set_all(loaded());
  const Space space = space_of();
  if (space == Space::shared) return true;
  if (in_->has("async")) return refuse(reason, "asynchronous reduction");
  if (in_->has("sys") ||
      ((in_->has("acquire") || in_->has("release") || in_->has("acq_rel")) && !in_->has("cta")))
    return refuse(reason, "synchronising atomic: the kernel may wait for another one");
  if (in_->operands.size() <= at) return refuse(reason, "malformed atomic");
  const Value a = address(in_->operands[at]);
  if (space == Space::none && !has_parameter(graph_, a.poly))
    graph_.local_stores_.push_back({UINT32_MAX, false, 0, 0, loaded()});
  touch(AccessMode::read_written, space, a, access_bytes());
  return true;
}

bool Transfer::async_copy(std::string& reason) {
  size_t global = SIZE_MAX, shared = SIZE_MAX;
  for (size_t i = 0; i < in_->modifiers.size(); ++i) {
    if (in_->modifiers[i] == "global" && global == SIZE_MAX) global = i;
    if (is_shared(in_->modifiers[i]) && shared == SIZE_MAX) shared = i;
  }
  if (in_->has("tensor")) return refuse(reason, "tensor copy: its address is in an opaque descriptor");
  if (in_->has("prefetch") || global == SIZE_MAX) return true;  // groups, waits, shared to shared
  if (shared == SIZE_MAX || in_->operands.size() < 3)
    return refuse(reason, "asynchronous copy is not understood by the analysis");
  const bool reads = shared < global;
  const Operand& size = in_->operands[2];
  const bool fixed = size.kind == Operand::Kind::imm_int && size.imm > 0 && size.imm <= 1 << 30;
  const Value a = address(in_->operands[reads ? 1 : 0]);
  touch(reads                ? AccessMode::read
        : in_->has("reduce") ? AccessMode::read_written
                             : AccessMode::written,
        Space::global, a, fixed ? static_cast<uint32_t>(size.imm) : 0);
  return true;
}

}  // namespace shunt::ptx::access
