#include "runtime/ptx/print.h"

#include <cinttypes>
#include <cstdio>

namespace shunt::ptx {
namespace {

void put_hex(std::string& out, const char* prefix, uint64_t value, int digits) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%s%0*" PRIX64, prefix, digits, value);
  out += buffer;
}

std::string_view space_name(Space space) {
  switch (space) {
    case Space::none:
      return "";
    case Space::reg:
      return ".reg";
    case Space::sreg:
      return ".sreg";
    case Space::constant:
      return ".const";
    case Space::global:
      return ".global";
    case Space::local:
      return ".local";
    case Space::param:
      return ".param";
    case Space::shared:
      return ".shared";
    case Space::tex:
      return ".tex";
  }
  return "";
}

std::string_view linkage_name(Linkage linkage) {
  switch (linkage) {
    case Linkage::internal:
      return "";
    case Linkage::visible:
      return ".visible ";
    case Linkage::external:
      return ".extern ";
    case Linkage::weak:
      return ".weak ";
    case Linkage::common:
      return ".common ";
  }
  return "";
}

void put_offset(std::string& out, int64_t offset) {
  if (offset == 0) return;
  out += '+';  // PTX knows no minus here: [r+-8]
  out += std::to_string(offset);
}

void put(std::string& out, const Operand& operand);

void put_all(std::string& out, const std::vector<Operand>& elements) {
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i != 0) out += ", ";
    put(out, elements[i]);
  }
}

void put_component(std::string& out, const Operand& operand) {
  if (operand.selector == 0) return;
  out += '.';
  if (operand.selector == 'x') {
    out += "xyzw"[operand.component & 3];
  } else if (operand.selector == 'b' || operand.selector == 'h') {
    out += operand.selector;
    out += static_cast<char>('0' + operand.component);
  } else {
    out += operand.selector == 'B' ? 'b' : 'h';
    // At least two digits were written; more than that cannot be told from leading zeros, which mean the
    // same.
    char digits[16];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(operand.component));
    out += digits;
  }
}

void put(std::string& out, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::none:
      out += '_';
      break;
    case Operand::Kind::reg:
      if (operand.negated) out += '!';
      out += operand.symbol;
      put_component(out, operand);
      put_offset(out, operand.imm);  // only as the first part of a tensor or texture address
      break;
    case Operand::Kind::sreg:
      if (operand.negated) out += '!';
      out += operand.symbol;
      break;
    case Operand::Kind::imm_int:
      out += std::to_string(operand.imm);
      break;
    case Operand::Kind::imm_f32:
      put_hex(out, "0f", static_cast<uint32_t>(operand.imm), 8);
      break;
    case Operand::Kind::imm_f64:
      put_hex(out, "0d", static_cast<uint64_t>(operand.imm), 16);
      break;
    case Operand::Kind::symbol:
    case Operand::Kind::label:
      if (operand.negated) out += '!';
      out += operand.symbol;
      put_offset(out, operand.imm);
      break;
    case Operand::Kind::address:
      out += '[';
      if (operand.symbol.empty()) {
        out += std::to_string(operand.imm);
      } else {
        out += operand.symbol;
        put_component(out, operand);
        put_offset(out, operand.imm);
      }
      out += ']';
      break;
    case Operand::Kind::vector:
      out += '{';
      put_all(out, operand.elements);
      out += '}';
      break;
    case Operand::Kind::tex_address:
      out += '[';
      put_all(out, operand.elements);
      out += ']';
      break;
    case Operand::Kind::pair:
      put(out, operand.elements[0]);
      out += '|';
      put(out, operand.elements[1]);
      break;
    case Operand::Kind::list:
      out += '(';
      put_all(out, operand.elements);
      out += ')';
      break;
  }
}

void put(std::string& out, const Instruction& in) {
  if (!in.guard.empty()) {
    out += in.guard_negated ? "@!" : "@";
    out += in.guard;
    out += ' ';
  }
  out += in.opcode;
  for (const std::string& modifier : in.modifiers) {
    out += '.';
    out += modifier;
  }
  if (!in.operands.empty()) out += ' ';
  put_all(out, in.operands);
  out += ';';
}

void put_element(std::string& out, Type type, const Initializer::Element& e) {
  if (e.kind == Initializer::Element::Kind::bits) {
    if (type == Type::f32)
      put_hex(out, "0f", e.bits, 8);
    else if (type == Type::f64)
      put_hex(out, "0d", e.bits, 16);
    else
      out += std::to_string(e.bits);
    return;
  }
  const bool mask = e.kind == Initializer::Element::Kind::mask;
  if (mask) {
    put_hex(out, "0x", static_cast<uint64_t>(e.addend), 1);
    out += '(';
  }
  if (e.generic) out += "generic(";
  out += e.symbol;
  if (e.generic) out += ')';
  put_offset(out, mask ? static_cast<int64_t>(e.bits) : e.addend);
  if (mask) out += ')';
}

// One pair of braces per dimension; `at` runs through the flat list, which may end early.
void put_braces(std::string& out, const Variable& v, const std::vector<uint64_t>& shape, size_t dimension,
                size_t& at) {
  out += '{';
  for (uint64_t i = 0; (shape[dimension] == 0 || i < shape[dimension]) && at < v.init.elements.size(); ++i) {
    if (i != 0) out += ", ";
    if (dimension + 1 == shape.size())
      put_element(out, v.type, v.init.elements[at++]);
    else
      put_braces(out, v, shape, dimension + 1, at);
  }
  out += '}';
}

void put_initializer(std::string& out, const Variable& v) {
  std::vector<uint64_t> shape = v.dims;
  if (v.vector > 1) shape.push_back(v.vector);
  size_t at = 0;
  out += " = ";
  if (shape.empty())
    put_element(out, v.type, v.init.elements[0]);
  else
    put_braces(out, v, shape, 0, at);
}

// Without the ';'.
void put(std::string& out, const Variable& v) {
  out += linkage_name(v.linkage);
  out += space_name(v.space);
  if (v.managed) out += " .attribute(.managed)";
  if (v.align != 0) out += " .align " + std::to_string(v.align);
  if (v.vector > 1) out += " .v" + std::to_string(v.vector);
  out += " .";
  out += type_name(v.type);
  if (v.is_ptr) {
    out += " .ptr ";
    out += space_name(v.ptr_space);
    if (v.ptr_align != 0) out += " .align " + std::to_string(v.ptr_align);
  }
  out += ' ';
  out += v.name;
  if (v.reg_count != 0) out += '<' + std::to_string(v.reg_count) + '>';
  for (uint64_t dim : v.dims) out += dim == 0 ? "[]" : '[' + std::to_string(dim) + ']';
  if (!v.init.elements.empty()) put_initializer(out, v);
}

void put_formals(std::string& out, const std::vector<Variable>& variables) {
  out += '(';
  for (size_t i = 0; i < variables.size(); ++i) {
    if (i != 0) out += ", ";
    put(out, variables[i]);
  }
  out += ')';
}

void put_three(std::string& out, const char* name, const uint32_t (&values)[3]) {
  if (values[0] == 0 && values[1] == 0 && values[2] == 0) return;
  out += std::string("\n.") + name + ' ' + std::to_string(values[0]) + ", " + std::to_string(values[1]) +
         ", " + std::to_string(values[2]);
}

void put_number(std::string& out, const char* name, uint32_t value) {
  if (value != 0) out += std::string("\n.") + name + ' ' + std::to_string(value);
}

void put_targets(std::string& out, const BranchTargets& targets, const char* directive) {
  out += targets.name + ": " + directive;
  for (size_t i = 0; i < targets.labels.size(); ++i) out += (i == 0 ? " " : ", ") + targets.labels[i];
  out += ";\n";
}

void put_body(std::string& out, const Function& f) {
  out += "\n{\n";
  for (const Variable& v : f.locals) {
    out += '\t';
    put(out, v);
    out += ";\n";
  }
  for (const BranchTargets& t : f.branch_targets) put_targets(out, t, ".branchtargets");
  for (const BranchTargets& t : f.call_targets) put_targets(out, t, ".calltargets");
  for (const CallPrototype& p : f.prototypes) {
    out += p.name + ": .callprototype ";
    if (!p.returns.empty()) put_formals(out, p.returns);
    out += " _ ";
    put_formals(out, p.params);
    out += p.noreturn ? " .noreturn;\n" : ";\n";
  }
  size_t label = 0;
  for (size_t i = 0; i <= f.body.size(); ++i) {
    while (label < f.labels.size() && f.labels[label].index == i) out += f.labels[label++].name + ":\n";
    if (i == f.body.size()) break;
    out += '\t';
    put(out, f.body[i]);
    out += '\n';
  }
  out += "}\n";
}

void put(std::string& out, const Function& f) {
  out += linkage_name(f.linkage);
  out += f.is_entry ? ".entry " : ".func ";
  if (!f.returns.empty()) {
    put_formals(out, f.returns);
    out += ' ';
  }
  out += f.name;
  put_formals(out, f.params);
  put_three(out, "maxntid", f.maxntid);
  put_three(out, "reqntid", f.reqntid);
  put_three(out, "reqnctapercluster", f.reqnctapercluster);
  put_number(out, "minnctapersm", f.minnctapersm);
  put_number(out, "maxnreg", f.maxnreg);
  put_number(out, "maxclusterrank", f.maxclusterrank);
  if (f.explicitcluster) out += "\n.explicitcluster";
  if (f.blocks_are_clusters) out += "\n.blocksareclusters";
  if (f.noreturn) out += "\n.noreturn";
  if (f.is_declaration)
    out += ";\n";
  else
    put_body(out, f);
}

}  // namespace

std::string print(const Operand& operand) {
  std::string out;
  put(out, operand);
  return out;
}

std::string print(const Instruction& instruction) {
  std::string out;
  put(out, instruction);
  return out;
}

std::string print(const Module& module) {
  std::string out =
      ".version " + std::to_string(module.version_major) + '.' + std::to_string(module.version_minor);
  out += "\n.target " + module.target;
  for (const std::string& option : module.target_options) out += ", " + option;
  out += "\n.address_size " + std::to_string(module.address_size) + "\n\n";
  const size_t header = out.size();
  // Variables and functions refer to each other: as in the source, by line.
  size_t v = 0, f = 0;
  while (v < module.variables.size() || f < module.functions.size()) {
    if (f == module.functions.size() ||
        (v < module.variables.size() && module.variables[v].line <= module.functions[f].line)) {
      put(out, module.variables[v++]);
      out += ";\n";
    } else {
      put(out, module.functions[f++]);
      out += '\n';
    }
  }
  for (const auto& [a, b] : module.aliases) out += ".alias " + a + ", " + b + ";\n";
  // Renamed names carry '@', guards begin with it after a blank.
  for (size_t i = header; i < out.size(); ++i) {
    if (out[i] == '@' && out[i - 1] != '\t') out[i] = '$';
  }
  return out;
}

}  // namespace shunt::ptx
