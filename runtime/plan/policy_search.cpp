#include "runtime/plan/policy_search.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace shunt::plan {

namespace {

// Genome: three genes a task: device, power step, order key in [0, 1] (smaller goes first among ready tasks).
struct Decoder {
  const Problem& p;
  size_t most_steps = 1;

  explicit Decoder(const Problem& problem) : p(problem) {
    for (const Device& d : p.devices) most_steps = std::max(most_steps, d.power_steps.size());
  }

  std::vector<Gene> genes() const {
    std::vector<Gene> list;
    for (size_t t = 0; t < p.task_count(); ++t) {
      list.push_back({0, 0, static_cast<uint32_t>(p.device_count())});
      list.push_back({0, 0, static_cast<uint32_t>(most_steps)});
      list.push_back({0, 1, 0});
    }
    return list;
  }

  DeviceId device(std::span<const double> genome, TaskId t) const {
    return static_cast<DeviceId>(genome[3 * t]);
  }
  const PowerStep& step(std::span<const double> genome, TaskId t) const {
    const auto& steps = p.devices[device(genome, t)].power_steps;
    return steps[std::min(static_cast<size_t>(genome[3 * t + 1]), steps.size() - 1)];
  }

  // Schedules in key order among ready tasks; false when a task sits on a device that cannot run it.
  bool decode(std::span<const double> genome, Schedule& schedule, double& violation) const {
    violation = 0;
    for (TaskId t = 0; t < p.task_count(); ++t) {
      const DeviceId d = device(genome, t);
      if (std::isfinite(p.time(t, d))) continue;
      const double over = p.tasks[t].memory_bytes / p.devices[d].memory_bytes - 1;
      violation += std::isfinite(over) && over > 0 ? over : 1;
    }
    if (violation > 0) return false;
    Timeline timeline(p);
    std::vector<uint32_t> waiting(p.task_count());
    using Item = std::pair<double, TaskId>;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> ready;
    for (TaskId t = 0; t < p.task_count(); ++t) {
      waiting[t] = static_cast<uint32_t>(p.predecessors[t].size());
      if (waiting[t] == 0) ready.emplace(genome[3 * t + 2], t);
    }
    while (!ready.empty()) {
      const TaskId t = ready.top().second;
      ready.pop();
      timeline.place(t, timeline.earliest(t, device(genome, t), 1 / step(genome, t).speed));
      for (uint32_t e : p.successors[t]) {
        if (--waiting[p.edges[e].to] == 0) ready.emplace(genome[3 * p.edges[e].to + 2], p.edges[e].to);
      }
    }
    schedule = timeline.finish("nsga2");
    return true;
  }

  double energy(std::span<const double> genome, const Schedule& s) const {
    std::vector<double> busy(p.device_count());
    double total = 0;
    for (TaskId t = 0; t < p.task_count(); ++t) {
      const double length = s.slots[t].finish - s.slots[t].start;
      busy[s.slots[t].device] += length;
      total += length * p.devices[s.slots[t].device].busy_w * step(genome, t).power;
    }
    for (DeviceId d = 0; d < p.device_count(); ++d)
      total += std::max(0.0, s.makespan - busy[d]) * p.devices[d].idle_w;
    return total;
  }

  std::vector<double> encode(const Schedule& s) const {
    std::vector<double> genome(3 * p.task_count(), 0);
    for (TaskId t = 0; t < p.task_count(); ++t) {
      genome[3 * t] = s.slots[t].device;
      genome[3 * t + 2] = s.makespan > 0 ? s.slots[t].start / s.makespan : 0;
    }
    return genome;
  }
};

// Tasks of a device run one after another, so its peak is its largest task.
double memory_pressure(const Problem& p, const Schedule& s) {
  double most = 0;
  for (TaskId t = 0; t < p.task_count(); ++t) {
    const double capacity = p.devices[s.slots[t].device].memory_bytes;
    if (std::isfinite(capacity) && capacity > 0) most = std::max(most, p.tasks[t].memory_bytes / capacity);
  }
  return most;
}

}  // namespace

PolicyPoint judge(const Problem& p, Schedule schedule) {
  PolicyPoint point;
  point.energy_j = energy_j(p, schedule);
  point.memory_pressure = memory_pressure(p, schedule);
  point.schedule = std::move(schedule);
  return point;
}

PolicyFront search_policies(const Problem& p, const PolicyOptions& options) {
  const Decoder decoder(p);
  Nsga2Problem search;
  search.genes = decoder.genes();
  search.objectives = 3;
  search.evaluate = [&](std::span<const double> genome, double* objectives) {
    Schedule schedule;
    double violation = 0;
    if (!decoder.decode(genome, schedule, violation)) {
      std::fill_n(objectives, 3, std::numeric_limits<double>::max());
      return violation;
    }
    objectives[0] = schedule.makespan;
    objectives[1] = decoder.energy(genome, schedule);
    objectives[2] = memory_pressure(p, schedule);
    return 0.0;
  };
  Nsga2Options nsga;
  nsga.population = options.population;
  nsga.generations = options.generations;
  nsga.seed = options.seed;
  nsga.time_limit_s = options.time_limit_s;
  std::vector<Schedule> seeds;
  for (Schedule s : {heft(p), peft(p), lookahead(p), best_single_device(p), round_robin(p)}) {
    if (!std::isfinite(s.makespan) || s.slots.size() != p.task_count()) continue;
    nsga.initial.push_back(decoder.encode(s));
    seeds.push_back(std::move(s));
  }
  const Nsga2Result result = nsga2(search, nsga);

  PolicyFront front;
  front.evaluations = result.evaluations;
  front.baseline = judge(p, seeds.front());
  std::vector<Nsga2Result::Member> members;
  for (const auto& member : result.front) {
    PolicyPoint point;
    double violation = 0;
    if (member.violation > 0 || !decoder.decode(member.genome, point.schedule, violation)) continue;
    point.energy_j = decoder.energy(member.genome, point.schedule);
    point.memory_pressure = memory_pressure(p, point.schedule);
    const bool twin = std::any_of(members.begin(), members.end(),
                                  [&](const auto& m) { return m.objectives == member.objectives; });
    if (twin) continue;
    members.push_back(member);
    front.points.push_back(std::move(point));
  }
  // The heuristics themselves stay candidates: decoding by keys can lose an insertion, and a plan must never
  // be worse.
  for (Schedule& s : seeds) {
    PolicyPoint point = judge(p, std::move(s));
    const double mine[3] = {point.schedule.makespan, point.energy_j, point.memory_pressure};
    bool useful = true;
    for (const auto& m : members) {
      bool covered = true;
      for (int k = 0; k < 3; ++k) covered &= m.objectives[static_cast<size_t>(k)] <= mine[k];
      useful &= !covered;
    }
    if (!useful) continue;
    for (size_t i = members.size(); i-- > 0;) {
      bool beaten = true;
      for (int k = 0; k < 3; ++k) beaten &= mine[k] <= members[i].objectives[static_cast<size_t>(k)];
      if (beaten)
        members.erase(members.begin() + static_cast<long>(i)),
            front.points.erase(front.points.begin() + static_cast<long>(i));
    }
    members.push_back({{}, {mine[0], mine[1], mine[2]}, 0});
    front.points.push_back(std::move(point));
  }
  std::vector<size_t> order(members.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return members[a].objectives < members[b].objectives; });
  std::vector<PolicyPoint> sorted;
  std::vector<Nsga2Result::Member> sorted_members;
  for (size_t i : order)
    sorted.push_back(std::move(front.points[i])), sorted_members.push_back(std::move(members[i]));
  front.points = std::move(sorted);
  front.knee = knee(sorted_members);
  return front;
}

}  // namespace shunt::plan
