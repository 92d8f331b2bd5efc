#include "tests/ptx/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ptx_test {

using namespace shunt::ptx;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> files_in(const std::string& folder, const std::string& extension) {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) result.push_back(entry.path().string());
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::unique_ptr<Module> parse_ok(const std::string& text) {
  Diagnostic d;
  auto module = parse(text, d);
  EXPECT_TRUE(module != nullptr) << d.line << ":" << d.column << ": " << d.message;
  if (module) {
    EXPECT_EQ(d.message, "");
  } else {
    module = std::make_unique<Module>();
  }
  return module;
}

std::string error_of(const std::string& text) {
  Diagnostic d;
  EXPECT_TRUE(parse(text, d) == nullptr) << "parsed: " << text;
  return std::to_string(d.line) + ":" + std::to_string(d.column) + ": " + d.message;
}

std::string kernel(const std::string& statements) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 4 .b32 sym[8]; .extern .shared .b8 "
         "dyn[];\n"
         ".visible .entry k(.param .u64 a) { .reg .pred %p<9>;\n"
         ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;\n" +
         statements + "\nret; }\n";
}

const Function* find(const Module& module, const std::string& part_of_name) {
  for (const Function& f : module.functions) {
    if (!f.is_declaration && f.name.find(part_of_name) != std::string::npos) return &f;
  }
  ADD_FAILURE() << "no function " << part_of_name;
  static const Function* const empty = new Function();
  return empty;
}

size_t count(const Function& function, const std::string& opcode) {
  return static_cast<size_t>(std::count_if(function.body.begin(), function.body.end(),
                                           [&](const Instruction& in) { return in.opcode == opcode; }));
}

namespace {

std::string plain(std::string name) {
  std::replace(name.begin(), name.end(), '@', '$');
  return name;
}

bool same(const Operand& a, const Operand& b) {
  if (a.kind != b.kind || a.negated != b.negated || a.base_register != b.base_register ||
      a.component != b.component || a.selector != b.selector || a.imm != b.imm ||
      plain(a.symbol) != plain(b.symbol) || a.elements.size() != b.elements.size())
    return false;
  for (size_t i = 0; i < a.elements.size(); ++i) {
    if (!same(a.elements[i], b.elements[i])) return false;
  }
  return true;
}

bool same(const Instruction& a, const Instruction& b) {
  if (a.opcode != b.opcode || a.modifiers != b.modifiers || a.types != b.types ||
      plain(a.guard) != plain(b.guard) || a.guard_negated != b.guard_negated ||
      a.operands.size() != b.operands.size())
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (!same(a.operands[i], b.operands[i])) return false;
  }
  return true;
}

bool same(const Variable& a, const Variable& b) {
  if (plain(a.name) != plain(b.name) || a.space != b.space || a.type != b.type || a.vector != b.vector ||
      a.linkage != b.linkage || a.align != b.align || a.dims != b.dims || a.reg_count != b.reg_count ||
      a.is_ptr != b.is_ptr || a.ptr_space != b.ptr_space || a.ptr_align != b.ptr_align ||
      a.managed != b.managed || a.init.elements.size() != b.init.elements.size())
    return false;
  for (size_t i = 0; i < a.init.elements.size(); ++i) {
    const auto& x = a.init.elements[i];
    const auto& y = b.init.elements[i];
    if (x.kind != y.kind || x.bits != y.bits || x.symbol != y.symbol || x.addend != y.addend ||
        x.generic != y.generic)
      return false;
  }
  return true;
}

bool same(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Variable& x, const Variable& y) { return same(x, y); });
}

bool same(const std::vector<BranchTargets>& a, const std::vector<BranchTargets>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const BranchTargets& x, const BranchTargets& y) {
        return plain(x.name) == plain(y.name) &&
               std::equal(x.labels.begin(), x.labels.end(), y.labels.begin(), y.labels.end(),
                          [](const std::string& l, const std::string& m) { return plain(l) == plain(m); });
      });
}

std::string difference(const Function& a, const Function& b) {
  if (a.name != b.name || a.is_entry != b.is_entry || a.is_declaration != b.is_declaration ||
      a.noreturn != b.noreturn || a.linkage != b.linkage)
    return "header";
  if (!same(a.returns, b.returns) || !same(a.params, b.params)) return "parameters";
  if (!same(a.locals, b.locals)) return "locals";
  if (!same(a.branch_targets, b.branch_targets) || !same(a.call_targets, b.call_targets)) return "targets";
  if (!std::equal(a.maxntid, a.maxntid + 3, b.maxntid) || !std::equal(a.reqntid, a.reqntid + 3, b.reqntid) ||
      !std::equal(a.reqnctapercluster, a.reqnctapercluster + 3, b.reqnctapercluster) ||
      a.minnctapersm != b.minnctapersm || a.maxnreg != b.maxnreg || a.maxclusterrank != b.maxclusterrank ||
      a.explicitcluster != b.explicitcluster || a.blocks_are_clusters != b.blocks_are_clusters)
    return "performance directives";
  if (a.body.size() != b.body.size()) return "number of instructions";
  for (size_t i = 0; i < a.body.size(); ++i) {
    if (!same(a.body[i], b.body[i]))
      return "instruction " + std::to_string(i) + " of line " + std::to_string(a.body[i].line);
  }
  if (!std::equal(a.labels.begin(), a.labels.end(), b.labels.begin(), b.labels.end(),
                  [](const Label& x, const Label& y) {
                    return plain(x.name) == plain(y.name) && x.index == y.index;
                  }))
    return "labels";
  if (!std::equal(a.prototypes.begin(), a.prototypes.end(), b.prototypes.begin(), b.prototypes.end(),
                  [](const CallPrototype& x, const CallPrototype& y) {
                    return plain(x.name) == plain(y.name) && same(x.returns, y.returns) &&
                           same(x.params, y.params) && x.noreturn == y.noreturn;
                  }))
    return "prototypes";
  return "";
}

}  // namespace

std::string difference(const Module& a, const Module& b) {
  if (a.version_major != b.version_major || a.version_minor != b.version_minor || a.target != b.target ||
      a.target_options != b.target_options || a.address_size != b.address_size)
    return "module header";
  if (!same(a.variables, b.variables)) return "module variables";
  if (a.aliases != b.aliases) return "aliases";
  if (a.functions.size() != b.functions.size()) return "number of functions";
  for (size_t i = 0; i < a.functions.size(); ++i) {
    const std::string d = difference(a.functions[i], b.functions[i]);
    if (!d.empty()) return a.functions[i].name + ": " + d;
  }
  return "";
}

}  // namespace ptx_test
