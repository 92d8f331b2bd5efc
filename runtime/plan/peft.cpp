// Predict Earliest Finish Time: H. Arabnejad, J. G. Barbosa, IEEE TPDS 25(3), 2014. The optimistic cost table
// holds, for a task on a device, the longest of the shortest remaining paths to an exit if transfers to the
// best next device are paid.
#include <algorithm>
#include <cmath>

#include "runtime/plan/schedule.h"

namespace shunt::plan {

namespace {
std::vector<double> optimistic_cost_table(const Problem& p) {
  const size_t m = p.device_count();
  std::vector<double> oct(p.task_count() * m, 0);
  for (auto it = p.topological.rbegin(); it != p.topological.rend(); ++it) {
    for (DeviceId d = 0; d < m; ++d) {
      double longest = 0;
      for (uint32_t e : p.successors[*it]) {
        const TaskId next = p.edges[e].to;
        const double transfer = p.mean_transfer(p.edges[e]);
        double shortest = kCannotRun;
        for (DeviceId w = 0; w < m; ++w) {
          shortest = std::min(shortest, oct[next * m + w] + p.time(next, w) + (w == d ? 0 : transfer));
        }
        longest = std::max(longest, shortest);
      }
      oct[*it * m + d] = longest;
    }
  }
  return oct;
}
}  // namespace

Schedule peft(const Problem& p) {
  const size_t m = p.device_count();
  const std::vector<double> oct = optimistic_cost_table(p);
  std::vector<double> rank(p.task_count(), 0);
  for (TaskId t = 0; t < p.task_count(); ++t) {
    for (DeviceId d = 0; d < m; ++d) rank[t] += oct[t * m + d] / static_cast<double>(m);
  }
  std::vector<uint32_t> waiting(p.task_count());
  std::vector<TaskId> ready;
  for (TaskId t = 0; t < p.task_count(); ++t) {
    waiting[t] = static_cast<uint32_t>(p.predecessors[t].size());
    if (waiting[t] == 0) ready.push_back(t);
  }
  Timeline timeline(p);
  while (!ready.empty()) {
    auto top = std::max_element(ready.begin(), ready.end(), [&](TaskId a, TaskId b) {
      return rank[a] != rank[b] ? rank[a] < rank[b] : a > b;
    });
    const TaskId t = *top;
    ready.erase(top);
    Slot best{0, kCannotRun, kCannotRun};
    double best_key = kCannotRun;
    for (DeviceId d = 0; d < m; ++d) {
      const Slot slot = timeline.earliest(t, d);
      if (slot.finish + oct[t * m + d] < best_key) best = slot, best_key = slot.finish + oct[t * m + d];
    }
    timeline.place(t, best);
    for (uint32_t e : p.successors[t]) {
      if (--waiting[p.edges[e].to] == 0) ready.push_back(p.edges[e].to);
    }
  }
  return timeline.finish("peft");
}

}  // namespace shunt::plan
