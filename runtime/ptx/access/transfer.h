// What each PTX instruction does to the values of registers, and which memory it reaches. A white list: an
// instruction that is not on it makes the kernel unknown when it can reach memory, and its results unknown
// otherwise.
#pragma once
#include <string>
#include <vector>

#include "runtime/ptx/access/value_graph.h"

namespace shunt::ptx::access {

void merge_checks(std::vector<uint32_t>& into, const std::vector<uint32_t>& from);

// Registers that an instruction writes. Taking one too many is harmless (it becomes unknown), one too few is
// not.
template <typename Use>
void for_each_destination(const Instruction& in, Use use) {
  if (in.operands.empty()) return;
  const Operand& first = in.operands[0];
  auto one = [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::reg) use(operand);
  };
  one(first);
  if (first.kind == Operand::Kind::vector || first.kind == Operand::Kind::pair ||
      first.kind == Operand::Kind::list) {
    for (const Operand& element : first.elements) {
      one(element);
      for (const Operand& inner : element.elements) one(inner);
    }
  }
}

class Transfer {
 public:
  explicit Transfer(ValueGraph& graph) : graph_(graph) {}
  // False with a reason: the kernel is unknown.
  bool run(uint32_t block, uint32_t index, std::string& reason);

 private:
  bool memory(std::string& reason);
  bool load(std::string& reason);
  bool store(std::string& reason);
  bool atomic(std::string& reason);
  bool async_copy(std::string& reason);
  bool load_parameter();
  bool computed(std::string& reason);
  bool predicate_operation();
  Value integer_operation(const std::string& opcode);
  Value move();
  Value convert();

  Value operand(const Operand& operand, uint32_t bits, bool is_signed);
  Value source(size_t index) {
    return index < in_->operands.size() ? operand(in_->operands[index], bits_, signed_) : loaded();
  }
  Value address(const Operand& operand);
  Symbol variable(std::string_view name);
  Symbol parameter(uint32_t index, uint32_t offset, uint32_t bytes, bool is_signed);
  Value narrow(Value value, uint32_t bits,
               bool is_signed);  // value with the check that it is its own b-bit integer
  Value combine(const Value& a, const Value& b, int64_t scale);
  Value product(const Value& a, const Value& b);
  Value operation(Node::Kind kind, std::vector<Value> args, uint32_t amount = 0);
  Value choice(const Value& a, const Value& b);
  static Value loaded();
  static Value number(int64_t value);
  void set(const Operand& destination, Value value);
  void set_all(const Value& value);
  bool refuse(std::string& reason, const std::string& what) const;
  void touch(AccessMode mode, Space space, const Value& address, uint32_t bytes);
  Space space_of() const;
  uint32_t access_bytes() const;

  ValueGraph& graph_;
  const Instruction* in_ = nullptr;
  uint32_t block_ = 0, index_ = 0;
  uint32_t bits_ = 0;
  bool signed_ = false;
};

}  // namespace shunt::ptx::access
