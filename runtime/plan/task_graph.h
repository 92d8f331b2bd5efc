// Task graphs for the planner: tasks with a time per device, edges with bytes, devices with links.
// Plain data; validate() once, then read-only and safe from any thread. Times in seconds, sizes in bytes.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shunt::plan {

using TaskId = uint32_t;
using DeviceId = uint32_t;
inline constexpr double kCannotRun = std::numeric_limits<double>::infinity();

struct Task {
  std::string name;
  double memory_bytes = 0;
};
struct Edge {
  TaskId from = 0, to = 0;
  double bytes = 0;
};

// A power step of a device: the share of its busy power drawn and of its full speed reached.
struct PowerStep {
  double power = 1, speed = 1;
};

struct Device {
  std::string name;
  double memory_bytes = kCannotRun;  // infinity: not limited
  double busy_w = 0, idle_w = 0;
  std::vector<PowerStep> power_steps{{1, 1}};
};

struct Problem {
  std::vector<Task> tasks;
  std::vector<Edge> edges;
  std::vector<Device> devices;
  std::vector<double> seconds;      // [task * devices + device]; kCannotRun: not on this device
  std::vector<double> bytes_per_s;  // [from * devices + to]; the diagonal is not read
  std::vector<double> latency_s;    // likewise

  // Derived by validate().
  std::vector<std::vector<uint32_t>> successors, predecessors;  // indices into edges
  std::vector<TaskId> topological;                              // ties by id

  size_t task_count() const { return tasks.size(); }
  size_t device_count() const { return devices.size(); }
  double time(TaskId t, DeviceId d) const { return seconds[t * devices.size() + d]; }
  double transfer(const Edge& edge, DeviceId from, DeviceId to) const;
  double mean_time(TaskId t) const;              // over the devices that can run it
  double mean_transfer(const Edge& edge) const;  // over ordered pairs of different devices

  // Checks sizes, ids, values and that the graph has no cycle. On failure false and one line: what, value,
  // fix.
  bool validate(std::string& error);
};

// Sum along the longest path with each task at its fastest device and no transfers: no schedule can beat it.
double critical_path_bound(const Problem& problem);
// Total of fastest times over all devices at full load: the other simple bound.
double work_bound(const Problem& problem);
// The stronger bound of assigning tasks to devices, precedence ignored (Lagrangian dual; exhaustive.cpp).
double assignment_bound(const Problem& problem);

}  // namespace shunt::plan
