// Where a kernel's parameters lie, asked from the driver once per function and kept. A function without an
// answer is never buffered. Any thread; leaked with the process (one per function).
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "runtime/model/objects.h"

namespace shunt::graphs {

struct ParamLayout {
  struct Param {
    uint32_t offset, size;  // in our packed copy: 8-byte aligned places
  };
  std::vector<Param> params;
  uint32_t bytes = 0;  // of the packed copy
  bool known = false;  // false: launches of it stay eager
};

const ParamLayout& param_layout(model::FunctionInfo& info, CUfunction handle);

}  // namespace shunt::graphs
