// What emission leaves for the end of linking, when instruction addresses are final.
#pragma once
#include <cstdint>
#include <vector>

namespace simgpu::exec {

struct Fixups {
  struct Jump {
    uint32_t inst, target;
    bool meeting;
  };  // aux = target, or imm = meeting point
  struct Table {
    uint32_t inst;
    std::vector<uint32_t> targets;
  };
  std::vector<Jump> jumps;
  std::vector<Table> tables;
  std::vector<std::pair<uint32_t, uint32_t>> starts;  // function, instruction
};

}  // namespace simgpu::exec
