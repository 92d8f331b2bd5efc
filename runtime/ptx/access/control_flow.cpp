#include "runtime/ptx/access/control_flow.h"

#include <algorithm>

namespace shunt::ptx::access {
namespace {

bool ends_block(const Instruction& in) {
  return in.opcode == "bra" || in.opcode == "brx" || in.opcode == "ret" || in.opcode == "exit" ||
         in.opcode == "trap";
}

}  // namespace

bool ControlFlow::build(const Function& function) {
  const uint32_t count = static_cast<uint32_t>(function.body.size());
  if (count == 0) return false;
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (const Label& label : function.labels) leader[label.index] = true;
  for (uint32_t i = 0; i < count; ++i) {
    if (ends_block(function.body[i])) leader[i + 1] = true;
  }
  std::vector<uint32_t> block_at(count + 1, 0);
  for (uint32_t i = 0; i < count; ++i) {
    if (leader[i]) {
      blocks_.emplace_back();
      blocks_.back().begin = i;
    }
    blocks_.back().end = i + 1;
    block_at[i] = static_cast<uint32_t>(blocks_.size() - 1);
  }
  // A label behind the last instruction: an empty block that leaves.
  blocks_.emplace_back();
  blocks_.back().begin = blocks_.back().end = count;
  block_at[count] = static_cast<uint32_t>(blocks_.size() - 1);

  std::unordered_map<std::string_view, uint32_t> label_block;
  for (const Label& label : function.labels) label_block[label.name] = block_at[label.index];
  link(function, label_block);
  if (!ok_) return false;
  find_order();
  find_dominators();
  return true;
}

void ControlFlow::link(const Function& function,
                       const std::unordered_map<std::string_view, uint32_t>& label_block) {
  for (uint32_t b = 0; b + 1 < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    const Instruction& last = function.body[block.end - 1];
    auto target = [&](const std::string& label) {
      auto it = label_block.find(label);
      if (it == label_block.end()) {
        ok_ = false;
        return;
      }
      if (std::find(block.successors.begin(), block.successors.end(), it->second) == block.successors.end()) {
        block.successors.push_back(it->second);
        block.conditions.push_back(0);
      }
    };
    bool falls_through = true;
    if (last.opcode == "bra") {
      if (last.operands.empty()) {
        ok_ = false;
        return;
      }
      target(last.operands[0].symbol);
      falls_through = !last.guard.empty();
    } else if (last.opcode == "brx") {
      const std::string name = last.operands.size() < 2 ? std::string() : last.operands[1].symbol;
      bool found = false;
      for (const BranchTargets& targets : function.branch_targets) {
        if (targets.name != name) continue;
        found = true;
        for (const std::string& label : targets.labels) target(label);
      }
      ok_ = ok_ && found;
      falls_through = !last.guard.empty();
    } else if (ends_block(last)) {
      falls_through = !last.guard.empty();
    }
    if (falls_through) {
      const uint32_t next = b + 1;
      if (std::find(block.successors.begin(), block.successors.end(), next) == block.successors.end()) {
        block.successors.push_back(next);
        block.conditions.push_back(last.guard.empty() || !ends_block(last) ? 0 : -1);
        if (last.opcode == "bra") block.conditions[0] = 1;
      }
    }
    if (!ok_) return;
    for (uint32_t s : block.successors) blocks_[s].predecessors.push_back(b);
  }
}

void ControlFlow::find_order() {
  number_.assign(blocks_.size(), UINT32_MAX);
  std::vector<std::pair<uint32_t, size_t>> stack{{0, 0}};
  std::vector<bool> seen(blocks_.size(), false);
  seen[0] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    if (next < blocks_[block].successors.size()) {
      const uint32_t s = blocks_[block].successors[next++];
      if (!seen[s]) {
        seen[s] = true;
        stack.push_back({s, 0});
      }
    } else {
      order_.push_back(block);
      stack.pop_back();
    }
  }
  std::reverse(order_.begin(), order_.end());
  for (uint32_t i = 0; i < order_.size(); ++i) number_[order_[i]] = i;
  // Edges from unreachable blocks would only confuse: nothing arrives through them.
  for (Block& block : blocks_) {
    block.predecessors.erase(std::remove_if(block.predecessors.begin(), block.predecessors.end(),
                                            [&](uint32_t p) { return number_[p] == UINT32_MAX; }),
                             block.predecessors.end());
  }
}

void ControlFlow::find_dominators() {
  dominator_.assign(blocks_.size(), UINT32_MAX);
  dominator_[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t block : order_) {
      if (block == 0) continue;
      uint32_t best = UINT32_MAX;
      for (uint32_t p : blocks_[block].predecessors) {
        if (dominator_[p] == UINT32_MAX) continue;
        if (best == UINT32_MAX) {
          best = p;
          continue;
        }
        uint32_t a = p, b = best;
        while (a != b) {
          while (number_[a] > number_[b]) a = dominator_[a];
          while (number_[b] > number_[a]) b = dominator_[b];
        }
        best = a;
      }
      if (dominator_[block] != best) {
        dominator_[block] = best;
        changed = true;
      }
    }
  }
}

bool ControlFlow::dominates(uint32_t a, uint32_t b) const {
  while (number_[b] > number_[a]) b = dominator_[b];
  return a == b;
}

}  // namespace shunt::ptx::access
