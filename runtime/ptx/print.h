// PTX text from a Module: for fuzzing, for reports, and to see what the parser understood. Any thread.
#pragma once
#include <string>

#include "runtime/ptx/ir.h"

namespace shunt::ptx {

// The result is PTX that parses to an equal Module, except that lines differ and the '@' of renamed names is
// '$'
// ("tmp@3" -> "tmp$3"), since PTX has no '@' in names. Pragmas and debug information are not part of a
// Module.
std::string print(const Module& module);

std::string print(const Instruction& instruction);  // one line, without newline; '@' kept
std::string print(const Operand& operand);

}  // namespace shunt::ptx
