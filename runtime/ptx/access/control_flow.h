// Basic blocks and dominators of one function.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/ptx/ir.h"

namespace shunt::ptx::access {

struct Block {
  uint32_t begin = 0, end = 0;  // instructions [begin, end)
  std::vector<uint32_t> successors, predecessors;
  // Per successor: 1 when only taken if the last instruction's guard holds, -1 if only when it does not, 0
  // else. "Holds" is about the predicate register with its negation applied.
  std::vector<int8_t> conditions;
};

class ControlFlow {
 public:
  // False when the shape is not understood (a branch to somewhere unknown, no instructions).
  bool build(const Function& function);

  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<uint32_t>& order() const {
    return order_;
  }  // reverse postorder from the entry; only reachable blocks
  bool reachable(uint32_t block) const { return number_[block] != UINT32_MAX; }
  uint32_t dominator(uint32_t block) const { return dominator_[block]; }  // immediate; the entry's is itself
  bool dominates(uint32_t a, uint32_t b) const;

 private:
  void link(const Function& function, const std::unordered_map<std::string_view, uint32_t>& label_block);
  void find_order();
  void find_dominators();

  std::vector<Block> blocks_;
  std::vector<uint32_t> order_, number_, dominator_;
  bool ok_ = true;
};

}  // namespace shunt::ptx::access
