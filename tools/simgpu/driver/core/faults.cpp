#include "tools/simgpu/driver/core/faults.h"

#include "tools/simgpu/box/fault_schedule.h"
#include "tools/simgpu/driver/core/log.h"

namespace simgpu::driver {
namespace {
void report_malformed(const char* item) {
  log_line(LogLevel::error, "SIMGPU_FAULTS: '%s' needs a count, * or %%probability after the site: ignored",
           item);
}

FaultSchedule& schedule() {
  static auto* instance = new FaultSchedule(report_malformed);
  return *instance;
}
}  // namespace

bool faults_active() {
  static const bool active = !schedule().empty();
  return active;
}

CUresult fault_point(const char* site, CUresult usual, const char* name) {
  if (!faults_active()) return CUDA_SUCCESS;
  CUresult code = usual;
  if (!schedule().strikes(site, name ? name : "", code)) return CUDA_SUCCESS;
  log_line(LogLevel::info, "fault injected at %s%s%s: %d", site, name ? ":" : "", name ? name : "",
           int(code));
  return code;
}
}  // namespace simgpu::driver
