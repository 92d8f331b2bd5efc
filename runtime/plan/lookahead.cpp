// HEFT with one step of look-ahead (L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira, PDP 2010): a task
// goes where its children, each then placed greedily, would finish earliest.
#include <algorithm>

#include "runtime/plan/schedule.h"

namespace shunt::plan {

Schedule lookahead(const Problem& p) {
  const std::vector<double> rank = upward_rank(p);
  std::vector<TaskId> order = p.topological;
  std::stable_sort(order.begin(), order.end(), [&](TaskId a, TaskId b) { return rank[a] > rank[b]; });
  Timeline timeline(p);
  std::vector<TaskId> children;
  for (TaskId t : order) {
    children.clear();
    for (uint32_t e : p.successors[t]) children.push_back(p.edges[e].to);
    std::sort(children.begin(), children.end(),
              [&](TaskId a, TaskId b) { return rank[a] != rank[b] ? rank[a] > rank[b] : a < b; });
    children.erase(std::unique(children.begin(), children.end()), children.end());
    Slot best{0, kCannotRun, kCannotRun};
    double best_key = kCannotRun;
    for (DeviceId d = 0; d < p.device_count(); ++d) {
      const Slot slot = timeline.earliest(t, d);
      if (slot.finish == kCannotRun) continue;
      timeline.place(t, slot);
      double key = slot.finish;
      for (TaskId child : children) {
        Slot next{0, kCannotRun, kCannotRun};
        for (DeviceId w = 0; w < p.device_count(); ++w) {
          const Slot candidate = timeline.earliest(child, w);
          if (candidate.finish < next.finish) next = candidate;
        }
        timeline.place(child, next);
        key = std::max(key, next.finish);
      }
      for (TaskId child : children) timeline.remove(child);
      timeline.remove(t);
      if (key < best_key || (key == best_key && slot.finish < best.finish)) best = slot, best_key = key;
    }
    timeline.place(t, best);
  }
  return timeline.finish("lookahead");
}

}  // namespace shunt::plan
