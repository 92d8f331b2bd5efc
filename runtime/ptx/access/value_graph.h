// Values of integer registers as polynomials, in SSA form over the blocks of one kernel; what cannot be a
// polynomial becomes a node with arguments, so that every pointer's origin stays visible. Internal to the
// access analysis.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/ptx/access/control_flow.h"
#include "runtime/ptx/access/polynomial.h"
#include "runtime/ptx/access_analysis.h"

namespace shunt::ptx::access {

// "poly <= value" or "poly >= value" when the checks hold.
struct Bound {
  Polynomial value;
  std::vector<uint32_t> checks;
  int64_t divisor = 1;  // of upper bounds: poly <= floor(value / divisor)
};

// "This polynomial lies in the range of a b-bit integer": wherever registers are widened, divided or compared
// the polynomial is their value only then.
struct Check {
  Polynomial value;
  uint8_t bits = 32;
  bool is_signed = true;
  std::vector<uint32_t> also;         // further checks that `value` itself rests on
  std::vector<Bound> uppers, lowers;  // of `value`, where the check is asked
};

struct Value {
  Polynomial poly;               // equal to the register modulo 2^width
  std::vector<uint32_t> checks;  // sorted indices; conditions for that
  int32_t predicate = -1;        // of predicate registers: index of a PredicateExpression
};

struct Alternative {
  Polynomial poly;
  std::vector<uint32_t> checks;
  std::vector<Bound> uppers, lowers;
};

struct Node {
  enum class Kind : uint8_t {
    opaque,      // any integer; arguments only say where it came from
    parameter,   // word of the parameter buffer: index, offset, bytes (0: any word of the parameter),
                 // is_signed
    variable,    // address of a variable: index into ValueGraph::variables()
    local_load,  // any value stored to local memory that may overlap: arguments
    phi,
    choice,       // one of the arguments
    mask,         // args[0] & args[1]
    merge,        // args[0] | or ^ args[1]
    shift_right,  // args[0] >> amount
    divide,
    remainder,
    minimum,
    maximum,        // of args[0], args[1]
    align_down,     // args[0] with its lowest `amount` bits cleared
    below,          // [0, amount]
    multiply_high,  // (args[0] * args[1]) >> amount
  };
  Kind kind = Kind::opaque;
  uint8_t bytes = 0;
  bool is_signed = false;
  uint32_t index = 0, offset = 0, amount = 0;
  uint32_t block = UINT32_MAX;  // where its value is made anew; UINT32_MAX: the same for the whole launch
  std::vector<Alternative> args;
};

struct PredicateExpression {
  enum class Kind : uint8_t {
    unknown,
    less,
    less_equal,
    equal,
    negation,
    conjunction,
    disjunction
  } kind = Kind::unknown;
  Value a, b;  // of comparisons: a < b, a <= b, a == b
  uint8_t bits = 32;
  bool is_signed = true;
  int32_t first = -1, second = -1;  // of the others
};

struct RawAccess {
  uint32_t instruction = 0;
  AccessMode mode = AccessMode::read;
  Space space = Space::none;  // as the instruction says; none is generic
  Value address;
  uint32_t bytes = 0;  // 0: of unknown extent
};

struct VariableInfo {
  std::string_view name;
  Space space = Space::none;
  uint32_t parameter = 0;  // of Space::param
};

class ValueGraph {
 public:
  ValueGraph(const Module& module, const Function& kernel, const ControlFlow& flow);
  // False with a reason when something in the kernel makes it unknown.
  bool build(std::string& reason);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Check>& checks() const { return checks_; }
  const std::vector<RawAccess>& accesses() const { return accesses_; }
  const std::vector<VariableInfo>& variables() const { return variables_; }
  const std::vector<PredicateExpression>& predicates() const { return predicates_; }
  // The predicate that ends a block with the sense of its guard applied, -1 if none; and that of a single
  // instruction.
  int32_t block_guard(uint32_t block) const { return block_guard_[block]; }
  int32_t guard_of(uint32_t instruction) const;
  uint32_t block_of(uint32_t instruction) const { return block_of_[instruction]; }

  uint32_t check(const Polynomial& value, uint8_t bits, bool is_signed);  // index of an equal or new one
  uint32_t add_check(Check check) {
    checks_.push_back(std::move(check));
    return static_cast<uint32_t>(checks_.size() - 1);
  }
  // Phis that stand for one value are replaced by it, wherever they occur.
  void resolve(Polynomial& poly, std::vector<uint32_t>& checks) const;
  Node& node(Symbol symbol) { return nodes_[symbol - kFirstNode]; }
  const Node& node(Symbol symbol) const { return nodes_[symbol - kFirstNode]; }
  // The block and predecessors that a phi's arguments belong to.
  struct PhiPlace {
    uint32_t block = 0;
    std::vector<uint32_t> predecessors;
  };
  const PhiPlace* phi_place(uint32_t node) const;

 private:
  friend class Transfer;
  friend class Inductions;
  using Register = uint32_t;

  Register register_of(std::string_view name);
  void find_definitions();
  void define(uint32_t block, Register reg, Value value);
  Value read(uint32_t block, Register reg);
  void fill_phis();
  void simplify_phis();
  void resolve_all();
  static bool substitute(Polynomial& poly, Symbol symbol, const Polynomial& by);
  void fill_local_loads();
  Symbol add_node(Node node);
  Value opaque(const std::vector<Value>& from);
  int32_t add_predicate(PredicateExpression expression);
  int32_t negate(int32_t predicate);

  const Module& module_;
  const Function& kernel_;
  const ControlFlow& flow_;
  uint32_t current_block_ = UINT32_MAX;
  std::vector<Node> nodes_;
  std::vector<Check> checks_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> check_index_;
  std::vector<RawAccess> accesses_;
  std::vector<VariableInfo> variables_;
  std::vector<PredicateExpression> predicates_;
  std::vector<int32_t> block_guard_;
  std::unordered_map<uint32_t, int32_t> guards_;
  std::vector<uint32_t> block_of_;

  std::unordered_map<std::string_view, Register> registers_;
  struct Definition {
    uint32_t count = 0, block = 0;
    uint32_t value = UINT32_MAX;
    uint8_t bits = 0;
  };
  std::vector<Definition> definitions_;
  std::vector<Value> values_;
  std::unordered_map<uint64_t, uint32_t> current_;  // block and register -> value
  struct PendingPhi {
    uint32_t node, block;
    Register reg;
  };
  std::vector<PendingPhi> pending_;
  std::unordered_map<uint32_t, PhiPlace> places_;
  struct Replacement {
    Polynomial poly;
    std::vector<uint32_t> checks;
  };
  std::unordered_map<uint32_t, Replacement> replaced_;  // node -> what it always is
  std::unordered_map<std::string_view, Symbol> variable_nodes_;
  std::unordered_map<uint64_t, Symbol> parameter_nodes_;
  struct LocalStore {
    uint32_t variable = UINT32_MAX;
    bool exact = false;
    int64_t offset = 0;
    uint32_t bytes = 0;
    Value value;
  };
  std::vector<LocalStore> local_stores_;
  struct LocalLoad {
    uint32_t node = 0, variable = 0;
    bool exact = false;
    int64_t offset = 0;
    uint32_t bytes = 0;
  };
  std::vector<LocalLoad> local_loads_;
};

}  // namespace shunt::ptx::access
