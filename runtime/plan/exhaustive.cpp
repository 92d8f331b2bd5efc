// Branch and bound over semi-active schedules. A schedule is enumerated as its tasks in order of start time,
// each starting as early as its device and inputs allow; demanding non-decreasing start times visits every
// such schedule once.
#include <algorithm>
#include <cmath>

#include "runtime/plan/schedule.h"

namespace shunt::plan {

namespace {

class Search {
 public:
  Search(const Problem& p, uint64_t max_nodes) : p_(p), nodes_left_(max_nodes), best_(best_of(p)) {
    const size_t n = p.task_count(), m = p.device_count();
    best_.algorithm = "exhaustive";
    fastest_.resize(n, kCannotRun);
    tail_.resize(n, 0);
    for (TaskId t = 0; t < n; ++t) {
      for (DeviceId d = 0; d < m; ++d) fastest_[t] = std::min(fastest_[t], p.time(t, d));
      remaining_work_ += fastest_[t];
    }
    for (auto it = p.topological.rbegin(); it != p.topological.rend(); ++it) {
      double below = 0;
      for (uint32_t e : p.successors[*it]) below = std::max(below, tail_[p.edges[e].to]);
      tail_[*it] = fastest_[*it] + below;
    }
    available_.resize(m, 0);
    slots_.resize(n);
    waiting_.resize(n);
    done_.resize(n, 0);
    for (TaskId t = 0; t < n; ++t) waiting_[t] = static_cast<uint32_t>(p.predecessors[t].size());
    find_twins();
  }

  Schedule run() {
    const double root = std::max(critical_path_bound(p_), assignment_bound(p_));
    if (best_.makespan > root * (1 + 1e-12)) extend(0, 0);
    best_.proven_optimal = complete_;
    best_.lower_bound = complete_ ? best_.makespan : root;
    return best_;
  }

 private:
  // twin_[d]: an earlier device with the same times and links, so that of several empty twins only the first
  // is tried.
  void find_twins() {
    const size_t n = p_.task_count(), m = p_.device_count();
    twin_.assign(m, -1);
    for (DeviceId b = 1; b < m; ++b) {
      for (DeviceId a = 0; a < b && twin_[b] < 0; ++a) {
        bool same = true;
        for (TaskId t = 0; t < n && same; ++t) same = p_.time(t, a) == p_.time(t, b);
        for (DeviceId c = 0; c < m && same; ++c) {
          if (c == a || c == b) continue;
          same = link(a, c) == link(b, c) && link(c, a) == link(c, b);
        }
        same = same && link(a, b) == link(b, a);
        if (same) twin_[b] = static_cast<int>(a);
      }
    }
  }
  std::pair<double, double> link(DeviceId a, DeviceId b) const {
    const size_t i = a * p_.device_count() + b;
    return {p_.bytes_per_s[i], p_.latency_s[i]};
  }

  double bound(double last_start) const {
    double longest = 0, floor_sum = 0, ceiling = 0;
    for (double a : available_) floor_sum += std::max(a, last_start), ceiling = std::max(ceiling, a);
    for (TaskId t = 0; t < p_.task_count(); ++t) {
      if (done_[t]) continue;
      double start = last_start;
      for (uint32_t e : p_.predecessors[t]) {
        if (done_[p_.edges[e].from]) start = std::max(start, slots_[p_.edges[e].from].finish);
      }
      longest = std::max(longest, start + tail_[t]);
    }
    const double m = static_cast<double>(p_.device_count());
    return std::max({ceiling, longest, (floor_sum + remaining_work_) / m});
  }

  void extend(size_t placed, double last_start) {
    if (nodes_left_ == 0) {
      complete_ = false;
      return;
    }
    --nodes_left_;
    const size_t n = p_.task_count();
    if (placed == n) {
      double makespan = 0;
      for (const Slot& s : slots_) makespan = std::max(makespan, s.finish);
      if (makespan < best_.makespan) best_.makespan = makespan, best_.slots = slots_;
      return;
    }
    if (bound(last_start) >= best_.makespan * (1 - 1e-12)) return;
    struct Choice {
      TaskId task;
      Slot slot;
    };
    std::vector<Choice> choices;
    for (TaskId t = 0; t < n; ++t) {
      if (done_[t] || waiting_[t] != 0) continue;
      for (DeviceId d = 0; d < p_.device_count(); ++d) {
        if (!std::isfinite(p_.time(t, d))) continue;
        if (twin_[d] >= 0 && available_[d] == 0 && available_[twin_[d]] == 0) continue;
        double start = std::max(available_[d], 0.0);
        for (uint32_t e : p_.predecessors[t]) {
          const Slot& from = slots_[p_.edges[e].from];
          start = std::max(start, from.finish + p_.transfer(p_.edges[e], from.device, d));
        }
        if (start + 1e-12 < last_start) continue;
        choices.push_back({t, {d, start, start + p_.time(t, d)}});
      }
    }
    std::stable_sort(choices.begin(), choices.end(),
                     [](const Choice& a, const Choice& b) { return a.slot.finish < b.slot.finish; });
    for (const Choice& c : choices) {
      const double before = available_[c.slot.device];
      available_[c.slot.device] = c.slot.finish;
      slots_[c.task] = c.slot;
      done_[c.task] = 1;
      remaining_work_ -= fastest_[c.task];
      for (uint32_t e : p_.successors[c.task]) --waiting_[p_.edges[e].to];
      extend(placed + 1, std::max(last_start, c.slot.start));
      for (uint32_t e : p_.successors[c.task]) ++waiting_[p_.edges[e].to];
      remaining_work_ += fastest_[c.task];
      done_[c.task] = 0;
      available_[c.slot.device] = before;
    }
  }

  const Problem& p_;
  uint64_t nodes_left_;
  Schedule best_;
  bool complete_ = true;
  double remaining_work_ = 0;
  std::vector<double> fastest_, tail_, available_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> waiting_;
  std::vector<char> done_;
  std::vector<int> twin_;
};

}  // namespace

// Lagrangian bound of the assignment problem: for weights w >= 0 summing to 1, sum over tasks of min_d w_d *
// time is below every makespan. The weights are found by subgradient steps; any weights are valid, so
// stopping early is safe.
double assignment_bound(const Problem& p) {
  const size_t n = p.task_count(), m = p.device_count();
  std::vector<double> weight(m, 1.0 / static_cast<double>(m)), load(m);
  double best = work_bound(p);
  double step = 0.5;
  for (int round = 0; round < 400; ++round, step *= 0.985) {
    std::fill(load.begin(), load.end(), 0);
    double value = 0;
    for (TaskId t = 0; t < n; ++t) {
      DeviceId at = 0;
      double least = kCannotRun;
      for (DeviceId d = 0; d < m; ++d) {
        if (std::isfinite(p.time(t, d)) && weight[d] * p.time(t, d) < least)
          least = weight[d] * p.time(t, d), at = d;
      }
      value += least;
      load[at] += p.time(t, at);
    }
    best = std::max(best, value);
    double mean = 0, sum = 0;
    for (double l : load) mean += l / static_cast<double>(m);
    if (mean <= 0) break;
    for (DeviceId d = 0; d < m; ++d) {
      weight[d] = std::max(1e-9, weight[d] * std::exp(step * std::clamp(load[d] / mean - 1, -1.0, 1.0)));
      sum += weight[d];
    }
    for (double& w : weight) w /= sum;
  }
  return best;
}

Schedule exhaustive(const Problem& p, uint64_t max_nodes) { return Search(p, max_nodes).run(); }

}  // namespace shunt::plan
