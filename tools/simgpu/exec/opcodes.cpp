#include "tools/simgpu/exec/opcodes.h"

namespace simgpu::exec {
LowerFn find_lowering(const std::string& opcode) {
  static const auto* const table = new std::unordered_map<std::string_view, LowerFn>{
#define SIMGPU_OPCODE(name, fn, forms, status) {#name, &fn},
#include "tools/simgpu/exec/opcodes.def"
#undef SIMGPU_OPCODE
  };
  auto it = table->find(opcode);
  return it == table->end() ? nullptr : it->second;
}
}  // namespace simgpu::exec
