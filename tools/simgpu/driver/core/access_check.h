// The static access analysis (runtime/ptx) against what kernels really touch: SIMGPU_ACCESS_CHECK=FILE
// appends one line for each kernel, "checked NAME", "unknown NAME: REASON" or "outside NAME: WHAT". A test's
// eye, not a feature: the overlap engine rests on "observed is inside predicted". Slow. Any thread.
#pragma once
#include "tools/simgpu/driver/core/ops.h"

namespace simgpu::driver {

bool access_check_wanted();
void access_check(const Op& op, const KernelBody& kernel);

}  // namespace simgpu::driver
