#include "tools/simgpu/cupti/settings.h"

#include <cstdlib>

#include "tools/simgpu/box/fault_schedule.h"

namespace simgpu::cupti {

const Settings& settings() {
  static const Settings* const instance = [] {
    auto* s = new Settings;
    if (const char* holder = std::getenv("SIMGPU_CUPTI_HOLDER")) s->holder = holder;
    if (const char* epoch = std::getenv("SIMGPU_CUPTI_EPOCH"); epoch && *epoch) {
      s->has_epoch = true;
      s->epoch_ns = std::strtoull(epoch, nullptr, 0);
    }
    return s;
  }();
  return *instance;
}

bool fault(Site site) {
  static auto* schedule = new FaultSchedule;
  return schedule->strikes(site == Site::drop ? "cupti_drop" : "cupti_zero_stamp");
}

}  // namespace simgpu::cupti
