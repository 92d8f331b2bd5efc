// What a kernel may touch in global memory, proven from its PTX: for each parameter unused, read, written,
// both; with bounds where addresses are affine in thread and block indices. Used by the overlap engine to
// know which launches conflict.
//
// Sound, not complete: whatever is not proven makes the kernel `unknown`, with a reason. The proof assumes
// what CUDA assumes of every program: a pointer is not moved from one allocation into another by arithmetic.
// A KernelAccess is immutable after analyse(); evaluate() may be called by any thread at once. No exceptions
// leave.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ptx/ir.h"

namespace shunt::ptx {

enum class AccessMode : uint8_t { unused = 0, read = 1, written = 2, read_written = 3 };
std::string_view access_mode_name(AccessMode);
inline AccessMode operator|(AccessMode a, AccessMode b) {
  return static_cast<AccessMode>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

// How memory reached through the pointers of one kernel parameter is used.
struct ParameterAccess {
  AccessMode mode = AccessMode::unused;
  bool affine = true;  // every access has bounds that evaluate() can compute (if the launch's values allow)
  std::vector<uint32_t>
      pointers;  // offsets inside the parameter of 8-byte words that may be the pointers; 0 for plain ones
};

// A module variable (.global or .const) that the kernel names.
struct VariableAccess {
  std::string name;
  AccessMode mode = AccessMode::unused;
};

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
};

// Bytes [begin, end), or, when `whole` is set, the whole allocation that contains address `begin` (if any
// does: a parameter that merely could be a pointer may hold a number).
struct AccessRange {
  uint64_t begin = 0, end = 0;
  AccessMode mode = AccessMode::unused;
  bool whole = false;
  uint32_t parameter = 0;
};

struct KernelAccessProgram;  // what evaluate() runs

struct KernelAccess {
  std::string name;
  bool unknown = false;  // nothing is proven: a barrier
  std::string reason;    // of unknown: "line 41: address depends on a value read from memory"
  std::vector<ParameterAccess> parameters;
  std::vector<VariableAccess> variables;
  // True when every global access goes through parameters.
  bool proven() const { return !unknown && variables.empty(); }

  // Layout of the parameter buffer that evaluate() reads.
  struct ParameterLayout {
    uint32_t offset, size;
  };
  std::vector<ParameterLayout> layout;
  uint32_t parameter_bytes = 0;

  // The ranges of one launch, appended to `out`. `parameters` holds parameter_bytes bytes as laid out above.
  // False when unknown. Order and number of ranges carry no meaning; they may overlap.
  bool evaluate(const LaunchShape& shape, const uint8_t* parameters, std::vector<AccessRange>& out) const;

  std::shared_ptr<const KernelAccessProgram> program;
};

// All kernels of a module. Never fails: what cannot be analysed is unknown.
std::vector<KernelAccess> analyse_accesses(const Module& module);
KernelAccess analyse_access(const Module& module, const Function& kernel);

// A table for people: one line per parameter, with the reason when unknown.
std::string format_accesses(const KernelAccess& access, const Function& kernel);

}  // namespace shunt::ptx
