// The program to start: where it is and whether it can run under shunt. Reads headers only; executes nothing.
// One thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/binary/fatbin.h"

namespace shunt::tool {

struct Program {
  std::string path;  // absolute or as found in PATH
  bool elf = false, statically_linked = false;
  bool needs_cudart = false;                      // DT_NEEDED libcudart.so.*
  bool static_cudart = false;                     // the CUDA runtime is part of the executable
  std::vector<shunt::binary::Entry> device_code;  // of the executable itself
  std::vector<std::string> device_code_backing;   // keeps the entries' bytes alive
  bool has_ptx() const;
};

// On failure `status` is 126 or 127 (or 125) and `error` one line.
bool inspect_program(const std::string& name, Program& out, int& status, std::string& error);

}  // namespace shunt::tool
