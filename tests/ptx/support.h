// Shared by the tests of runtime/ptx.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/ptx/ir.h"

namespace ptx_test {

std::string read_file(const std::string& path);
std::vector<std::string> files_in(const std::string& folder,
                                  const std::string& extension);  // sorted full paths

// Parses or fails the running test with the diagnostic.
std::unique_ptr<shunt::ptx::Module> parse_ok(const std::string& text);
// "line:column: message" of a text that must not parse.
std::string error_of(const std::string& text);

// A module with one kernel `k` (parameter `a`) around these statements; they begin on line 7. Declared: %p<9>
// %r<9> %rd<9> %f<9> %fd<9>, module variables `sym` (b32[8]) and `dyn` (extern shared).
std::string kernel(const std::string& statements);
const shunt::ptx::Function* find(const shunt::ptx::Module& module, const std::string& part_of_name);
size_t count(const shunt::ptx::Function& function, const std::string& opcode);

// Differences between two modules apart from lines; "" when equal. '@' in names of `a` equals '$' in `b`.
std::string difference(const shunt::ptx::Module& a, const shunt::ptx::Module& b);

}  // namespace ptx_test
