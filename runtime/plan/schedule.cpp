#include "runtime/plan/schedule.h"

#include <algorithm>
#include <cmath>

namespace shunt::plan {

Timeline::Timeline(const Problem& problem)
    : problem_(problem),
      busy_(problem.device_count()),
      slots_(problem.task_count()),
      placed_(problem.task_count()) {}

Slot Timeline::earliest(TaskId t, DeviceId d, double scale) const {
  const double length = problem_.time(t, d) * scale;
  if (!std::isfinite(length)) return {d, kCannotRun, kCannotRun};
  double ready = 0;
  for (uint32_t e : problem_.predecessors[t]) {
    const Edge& edge = problem_.edges[e];
    if (!placed_[edge.from]) continue;
    const Slot& from = slots_[edge.from];
    ready = std::max(ready, from.finish + problem_.transfer(edge, from.device, d));
  }
  double start = ready;
  for (const Busy& busy : busy_[d]) {
    if (busy.finish <= start) continue;
    if (start + length <= busy.start) break;
    start = busy.finish;
  }
  return {d, start, start + length};
}

void Timeline::place(TaskId t, const Slot& slot) {
  auto& list = busy_[slot.device];
  auto at = std::upper_bound(list.begin(), list.end(), slot.start,
                             [](double s, const Busy& b) { return s < b.start; });
  // A zero-length task may share its start with the task that follows it.
  while (at != list.begin() && std::prev(at)->start >= slot.finish) --at;
  list.insert(at, {slot.start, slot.finish, t});
  slots_[t] = slot;
  placed_[t] = 1;
}

void Timeline::remove(TaskId t) {
  auto& list = busy_[slots_[t].device];
  list.erase(std::find_if(list.begin(), list.end(), [t](const Busy& b) { return b.task == t; }));
  placed_[t] = 0;
}

Schedule Timeline::finish(std::string algorithm) const {
  Schedule schedule;
  schedule.algorithm = std::move(algorithm);
  schedule.slots = slots_;
  for (const Slot& slot : slots_) schedule.makespan = std::max(schedule.makespan, slot.finish);
  return schedule;
}

bool is_valid(const Problem& p, const Schedule& schedule, std::string& error) {
  const double slack = 1e-9 * std::max(1.0, schedule.makespan);
  if (schedule.slots.size() != p.task_count()) return error = "the schedule misses tasks", false;
  std::vector<std::vector<TaskId>> on(p.device_count());
  for (TaskId t = 0; t < p.task_count(); ++t) {
    const Slot& slot = schedule.slots[t];
    if (slot.device >= p.device_count() || !std::isfinite(p.time(t, slot.device)))
      return error = "task '" + p.tasks[t].name + "' is on a device that cannot run it", false;
    if (slot.start < -slack || slot.finish > schedule.makespan + slack)
      return error = "task '" + p.tasks[t].name + "' lies outside the schedule", false;
    for (uint32_t e : p.predecessors[t]) {
      const Slot& from = schedule.slots[p.edges[e].from];
      if (from.finish + p.transfer(p.edges[e], from.device, slot.device) > slot.start + slack)
        return error = "task '" + p.tasks[t].name + "' starts before its input from '" +
                       p.tasks[p.edges[e].from].name + "' arrived",
               false;
    }
    on[slot.device].push_back(t);
  }
  for (auto& list : on) {
    std::sort(list.begin(), list.end(), [&](TaskId a, TaskId b) {
      const Slot &x = schedule.slots[a], &y = schedule.slots[b];
      return x.start != y.start ? x.start < y.start : x.finish < y.finish;
    });
    for (size_t i = 1; i < list.size(); ++i) {
      if (schedule.slots[list[i - 1]].finish > schedule.slots[list[i]].start + slack)
        return error = "tasks '" + p.tasks[list[i - 1]].name + "' and '" + p.tasks[list[i]].name +
                       "' overlap on one device",
               false;
    }
  }
  return true;
}

double energy_j(const Problem& p, const Schedule& schedule) {
  std::vector<double> busy(p.device_count());
  for (const Slot& slot : schedule.slots) busy[slot.device] += slot.finish - slot.start;
  double total = 0;
  for (DeviceId d = 0; d < p.device_count(); ++d) {
    total += busy[d] * p.devices[d].busy_w + std::max(0.0, schedule.makespan - busy[d]) * p.devices[d].idle_w;
  }
  return total;
}

Schedule best_of(const Problem& p) {
  Schedule best = heft(p);
  for (Schedule other : {peft(p), lookahead(p), best_single_device(p)}) {
    if (other.makespan < best.makespan) best = std::move(other);
  }
  return best;
}

}  // namespace shunt::plan
