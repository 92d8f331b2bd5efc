#include "tools/simgpu/nvml/faults.h"

#include "tools/simgpu/box/fault_schedule.h"

namespace simgpu::nvml {

Return fault(const char* function) {
  static auto* schedule = new FaultSchedule;
  Return code = kUnknown;
  return schedule->strikes("nvml", function, code) ? code : kSuccess;
}

}  // namespace simgpu::nvml
