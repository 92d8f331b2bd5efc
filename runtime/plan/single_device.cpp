#include <cmath>

#include "runtime/plan/schedule.h"

namespace shunt::plan {

Schedule best_single_device(const Problem& p) {
  Schedule best;
  best.algorithm = "single-device";
  best.makespan = kCannotRun;
  for (DeviceId d = 0; d < p.device_count(); ++d) {
    Timeline timeline(p);
    bool runs = true;
    for (TaskId t : p.topological) {
      const Slot slot = timeline.earliest(t, d);
      runs = runs && std::isfinite(slot.finish);
      if (!runs) break;
      timeline.place(t, slot);
    }
    if (!runs) continue;
    Schedule schedule = timeline.finish("single-device");
    if (schedule.makespan < best.makespan) best = std::move(schedule);
  }
  return best;  // makespan stays infinite when no device can run everything
}

Schedule round_robin(const Problem& p) {
  Timeline timeline(p);
  DeviceId next = 0;
  for (TaskId t : p.topological) {
    // Skips devices that cannot run the task: a baseline that fails would not be one.
    while (!std::isfinite(p.time(t, next))) next = (next + 1) % p.device_count();
    timeline.place(t, timeline.earliest(t, next));
    next = (next + 1) % p.device_count();
  }
  return timeline.finish("round-robin");
}

}  // namespace shunt::plan
