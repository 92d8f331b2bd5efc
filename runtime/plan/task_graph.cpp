#include "runtime/plan/task_graph.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace shunt::plan {

double Problem::transfer(const Edge& edge, DeviceId from, DeviceId to) const {
  if (from == to) return 0;
  const size_t link = from * devices.size() + to;
  return latency_s[link] + (edge.bytes > 0 ? edge.bytes / bytes_per_s[link] : 0);
}

double Problem::mean_time(TaskId t) const {
  double sum = 0;
  int n = 0;
  for (DeviceId d = 0; d < devices.size(); ++d) {
    if (std::isfinite(time(t, d))) sum += time(t, d), ++n;
  }
  return n ? sum / n : kCannotRun;
}

double Problem::mean_transfer(const Edge& edge) const {
  const size_t n = devices.size();
  if (n < 2) return 0;
  double sum = 0;
  for (DeviceId a = 0; a < n; ++a) {
    for (DeviceId b = 0; b < n; ++b) sum += transfer(edge, a, b);
  }
  return sum / static_cast<double>(n * (n - 1));
}

namespace {

std::string number(double value) {
  std::string text = std::to_string(value);
  return text;
}

// Follows unfinished predecessors until a task repeats, and names that cycle.
std::string name_cycle(const Problem& p, const std::vector<uint32_t>& waiting) {
  TaskId at = 0;
  while (waiting[at] == 0) ++at;
  std::vector<int> seen(p.tasks.size(), -1);
  std::vector<TaskId> path;
  while (seen[at] < 0) {
    seen[at] = static_cast<int>(path.size());
    path.push_back(at);
    for (uint32_t e : p.predecessors[at]) {
      if (waiting[p.edges[e].from] != 0) {
        at = p.edges[e].from;
        break;
      }
    }
  }
  std::string text = "'" + p.tasks[at].name + "'";
  for (size_t i = path.size(); i-- > static_cast<size_t>(seen[at]);)
    text += " -> '" + p.tasks[path[i]].name + "'";
  return text;
}

}  // namespace

bool Problem::validate(std::string& error) {
  const size_t n = tasks.size(), m = devices.size();
  if (n == 0) return error = "the task graph has no tasks: add at least one", false;
  if (m == 0) return error = "the device set is empty: name at least one device", false;
  if (seconds.size() != n * m || bytes_per_s.size() != m * m || latency_s.size() != m * m) {
    return error = "times or links do not match the numbers of tasks (" + std::to_string(n) +
                   ") and devices (" + std::to_string(m) + ")",
           false;
  }
  for (TaskId t = 0; t < n; ++t) {
    if (!(tasks[t].memory_bytes >= 0))
      return error = "task '" + tasks[t].name + "' has a negative memory need", false;
    bool fits = false;
    for (DeviceId d = 0; d < m; ++d) {
      if (!(time(t, d) >= 0))
        return error = "task '" + tasks[t].name + "' has the time " + number(time(t, d)) + " on '" +
                       devices[d].name + "': times are >= 0",
               false;
      if (tasks[t].memory_bytes > devices[d].memory_bytes) seconds[t * m + d] = kCannotRun;
      fits |= std::isfinite(time(t, d));
    }
    if (!fits)
      return error = "task '" + tasks[t].name + "' fits no device (needs " +
                     number(tasks[t].memory_bytes / 1e9) + " GB): add a larger device or split it",
             false;
  }
  for (DeviceId a = 0; a < m; ++a) {
    for (DeviceId b = 0; b < m; ++b) {
      if (a != b && (!(bytes_per_s[a * m + b] > 0) || !(latency_s[a * m + b] >= 0))) {
        return error = "the link from '" + devices[a].name + "' to '" + devices[b].name +
                       "' needs a bandwidth > 0 and a latency >= 0",
               false;
      }
    }
  }
  successors.assign(n, {});
  predecessors.assign(n, {});
  for (uint32_t e = 0; e < edges.size(); ++e) {
    const Edge& edge = edges[e];
    if (edge.from >= n || edge.to >= n)
      return error = "edge " + std::to_string(e) + " names a task that does not exist", false;
    if (!(edge.bytes >= 0) || !std::isfinite(edge.bytes))
      return error = "the edge '" + tasks[edge.from].name + "' -> '" + tasks[edge.to].name +
                     "' has a bad size: bytes are finite and >= 0",
             false;
    successors[edge.from].push_back(e);
    predecessors[edge.to].push_back(e);
  }
  std::vector<uint32_t> waiting(n);
  std::priority_queue<TaskId, std::vector<TaskId>, std::greater<>> ready;
  for (TaskId t = 0; t < n; ++t) {
    waiting[t] = static_cast<uint32_t>(predecessors[t].size());
    if (waiting[t] == 0) ready.push(t);
  }
  topological.clear();
  while (!ready.empty()) {
    const TaskId t = ready.top();
    ready.pop();
    topological.push_back(t);
    for (uint32_t e : successors[t]) {
      if (--waiting[edges[e].to] == 0) ready.push(edges[e].to);
    }
  }
  if (topological.size() != n)
    return error = "the task graph has a cycle: " + name_cycle(*this, waiting), false;
  return true;
}

namespace {
double fastest(const Problem& p, TaskId t) {
  double best = kCannotRun;
  for (DeviceId d = 0; d < p.device_count(); ++d) best = std::min(best, p.time(t, d));
  return best;
}
}  // namespace

double critical_path_bound(const Problem& p) {
  std::vector<double> finish(p.task_count(), 0);
  double longest = 0;
  for (TaskId t : p.topological) {
    double start = 0;
    for (uint32_t e : p.predecessors[t]) start = std::max(start, finish[p.edges[e].from]);
    finish[t] = start + fastest(p, t);
    longest = std::max(longest, finish[t]);
  }
  return longest;
}

double work_bound(const Problem& p) {
  double total = 0;
  for (TaskId t = 0; t < p.task_count(); ++t) total += fastest(p, t);
  return total / static_cast<double>(p.device_count());
}

}  // namespace shunt::plan
