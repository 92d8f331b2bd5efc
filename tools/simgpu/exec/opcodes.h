// Declarations of every lowering function; opcodes.def says which opcode uses which.
#pragma once
#include "tools/simgpu/exec/lower.h"

namespace simgpu::exec {
#define SIMGPU_OPCODE(name, fn, forms, status) bool fn(Lowering&, const Instruction&);
#include "tools/simgpu/exec/opcodes.def"
#undef SIMGPU_OPCODE
bool lower_float_arith(Lowering&, const Instruction&);
bool lower_half_unary(Lowering&, const Instruction&);
}  // namespace simgpu::exec
