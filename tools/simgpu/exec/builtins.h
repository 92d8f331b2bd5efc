// Device-runtime functions that PTX declares and the driver provides: vprintf, __assertfail, malloc, free.
#pragma once
#include <string>

#include "tools/simgpu/exec/core.h"

namespace simgpu::exec {
Fn find_builtin(const std::string& name);  // null: not one of them
}
