// Names for the frames of a trace's call sites, from the files on this machine. A file whose build id differs
// from the recorded one is not used: a wrong name is worse than none; the separate debug file of that build
// id is looked for too. Nothing in the ELF files is trusted. One thread.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/shunt/trace/trace_run.h"

namespace shunt::tool {

std::string demangled(const std::string& name);  // as it is, when it is no C++ name

// The functions of one ELF file; empty when it cannot be read or is of another build.
class SymbolFile {
 public:
  SymbolFile(const std::string& path, const std::string& build_id);
  // "function+0x1c"; "" when the offset lies in no function.
  std::string name(uint64_t offset) const;
  bool matches() const { return matches_; }

 private:
  bool load(const std::string& path, const std::string& build_id);
  struct Function {
    uint64_t start, size;
    std::string name;
  };
  std::vector<Function> functions_;
  bool matches_ = false;
};

// The call sites of one process's trace.
class CallSites {
 public:
  explicit CallSites(const TraceProcess& process);
  // "train_step+0x1c (app) < main+0x40 (app)", at most `frames` of them; "" for an unknown stack.
  std::string text(uint32_t stack, size_t frames = 6);

 private:
  struct Module {
    std::string path, build_id;
  };
  std::map<uint32_t, std::vector<trace::StackFrame>> stacks_;
  std::map<uint32_t, std::string> python_;
  std::map<uint64_t, Module> modules_;
  std::map<uint64_t, SymbolFile> files_;
};

}  // namespace shunt::tool
