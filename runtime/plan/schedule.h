// A schedule and the list-scheduling machinery its algorithms share. A Timeline belongs to one thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/task_graph.h"

namespace shunt::plan {

struct Slot {
  DeviceId device = 0;
  double start = 0, finish = 0;
};

struct Schedule {
  std::string algorithm;
  std::vector<Slot> slots;  // by task
  double makespan = 0;
  bool proven_optimal = false;
  double lower_bound = 0;  // of the search that made it; 0: none
  double gap() const { return lower_bound > 0 ? makespan / lower_bound - 1 : 0; }
};

// What is already placed on each device; finds the earliest gap (insertion policy of HEFT).
class Timeline {
 public:
  explicit Timeline(const Problem& problem);
  // Earliest start of t on d once all its placed predecessors' data is there; `scale` stretches the time
  // (power steps).
  Slot earliest(TaskId t, DeviceId d, double scale = 1) const;
  void place(TaskId t, const Slot& slot);
  void remove(TaskId t);
  bool placed(TaskId t) const { return placed_[t]; }
  const Slot& slot(TaskId t) const { return slots_[t]; }
  Schedule finish(std::string algorithm) const;

 private:
  struct Busy {
    double start, finish;
    TaskId task;
  };
  const Problem& problem_;
  std::vector<std::vector<Busy>> busy_;  // per device, by start
  std::vector<Slot> slots_;
  std::vector<char> placed_;
};

// No overlap on a device, every predecessor's data arrived, every task on a device that can run it. Tolerance
// 1e-9 relative.
bool is_valid(const Problem& problem, const Schedule& schedule, std::string& error);
double energy_j(const Problem& problem, const Schedule& schedule);

Schedule heft(const Problem& problem);       // Topcuoglu, Hariri, Wu 2002
Schedule peft(const Problem& problem);       // Arabnejad, Barbosa 2014
Schedule lookahead(const Problem& problem);  // Bittencourt et al. 2010, one step
Schedule best_single_device(const Problem& problem);
Schedule round_robin(const Problem& problem);  // baseline
// Branch and bound over semi-active schedules. Stops after max_nodes; proven_optimal and lower_bound say how
// far it got.
Schedule exhaustive(const Problem& problem, uint64_t max_nodes);
// The best of all list heuristics: HEFT alone can be several times worse than one fast device.
Schedule best_of(const Problem& problem);

// Upward rank: longest mean path from a task to an exit, itself included.
std::vector<double> upward_rank(const Problem& problem);

}  // namespace shunt::plan
