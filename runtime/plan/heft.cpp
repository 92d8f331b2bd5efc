// Heterogeneous Earliest Finish Time: H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002.
#include <algorithm>
#include <numeric>

#include "runtime/plan/schedule.h"

namespace shunt::plan {

std::vector<double> upward_rank(const Problem& p) {
  std::vector<double> rank(p.task_count(), 0);
  for (auto it = p.topological.rbegin(); it != p.topological.rend(); ++it) {
    double below = 0;
    for (uint32_t e : p.successors[*it])
      below = std::max(below, p.mean_transfer(p.edges[e]) + rank[p.edges[e].to]);
    rank[*it] = p.mean_time(*it) + below;
  }
  return rank;
}

Schedule heft(const Problem& p) {
  const std::vector<double> rank = upward_rank(p);
  // Topological position breaks ties, so that tasks of zero time stay behind their predecessors.
  std::vector<TaskId> order = p.topological;
  std::stable_sort(order.begin(), order.end(), [&](TaskId a, TaskId b) { return rank[a] > rank[b]; });
  Timeline timeline(p);
  for (TaskId t : order) {
    Slot best{0, kCannotRun, kCannotRun};
    for (DeviceId d = 0; d < p.device_count(); ++d) {
      const Slot slot = timeline.earliest(t, d);
      if (slot.finish < best.finish) best = slot;
    }
    timeline.place(t, best);
  }
  return timeline.finish("heft");
}

}  // namespace shunt::plan
