#include "tools/shunt/plan/plan_input.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/placement/cost_model.h"
#include "tools/shunt/plan/recorded_run.h"

namespace shunt::tool {

namespace {
using nlohmann::json;

double number(const json& object, const char* key, double fallback) {
  auto at = object.find(key);
  if (at == object.end()) return fallback;
  if (!at->is_number()) throw std::string("'") + key + "' is " + at->dump() + ", not a number";
  return at->get<double>();
}

std::string text_of(const json& object, const char* key) {
  auto at = object.find(key);
  if (at == object.end() || !at->is_string()) throw std::string("a task or edge has no text '") + key + "'";
  return at->get<std::string>();
}

void refuse_unknown(const json& object, const std::set<std::string>& known, const std::string& where) {
  for (auto& [key, value] : object.items()) {
    if (known.count(key)) continue;
    std::string list;
    for (const auto& k : known) list += (list.empty() ? "" : ", ") + k;
    throw where + " has the unknown key '" + key + "'; known: " + list;
  }
}

void read_shunt(const json& root, PlanInput& input) {
  input.kind = PlanInput::Kind::shunt;
  refuse_unknown(root, {"schema", "tasks", "edges"}, "the file");
  std::map<std::string, plan::TaskId> id;
  for (const json& j : root.at("tasks")) {
    refuse_unknown(j, {"name", "flops", "bytes", "memory", "format", "seconds"}, "a task");
    PlanTask task;
    task.name = text_of(j, "name");
    task.flops = number(j, "flops", 0);
    task.bytes = number(j, "bytes", 0);
    task.memory_bytes = number(j, "memory", 0);
    if (j.contains("format")) task.format = text_of(j, "format");
    if (auto s = j.find("seconds"); s != j.end()) {
      if (s->is_number())
        task.reference_seconds = s->get<double>();
      else
        for (auto& [key, value] : s->items()) task.seconds[key] = value.get<double>();
    }
    if (task.flops < 0 || task.bytes < 0 || task.memory_bytes < 0)
      throw "task '" + task.name + "' has a negative size";
    if (!id.emplace(task.name, static_cast<plan::TaskId>(input.tasks.size())).second)
      throw "two tasks are called '" + task.name + "': names must differ";
    input.tasks.push_back(std::move(task));
  }
  if (!root.contains("edges")) return;
  for (const json& j : root.at("edges")) {
    refuse_unknown(j, {"from", "to", "bytes"}, "an edge");
    const std::string from = text_of(j, "from"), to = text_of(j, "to");
    for (const std::string& end : {from, to}) {
      if (!id.count(end)) throw "an edge names '" + end + "', which is no task";
    }
    input.edges.push_back({id[from], id[to], number(j, "bytes", 0)});
  }
}

void read_wfcommons(const json& root, PlanInput& input) {
  input.kind = PlanInput::Kind::wfcommons;
  const json& spec = root.at("workflow").at("specification");
  std::map<std::string, double> size, seconds, memory;
  for (const json& f : spec.value("files", json::array()))
    size[text_of(f, "id")] = number(f, "sizeInBytes", 0);
  if (root["workflow"].contains("execution")) {
    for (const json& t : root["workflow"]["execution"].value("tasks", json::array())) {
      seconds[text_of(t, "id")] = number(t, "runtimeInSeconds", 0);
      memory[text_of(t, "id")] = number(t, "memoryInBytes", 0);
    }
  }
  std::map<std::string, plan::TaskId> id;
  for (const json& t : spec.at("tasks")) {
    PlanTask task;
    task.name = text_of(t, "id");
    task.reference_seconds = std::max(0.0, seconds.count(task.name) ? seconds[task.name] : 0.0);
    task.memory_bytes = std::max(0.0, memory[task.name]);
    id[task.name] = static_cast<plan::TaskId>(input.tasks.size());
    input.tasks.push_back(std::move(task));
  }
  std::vector<std::set<std::string>> outputs(input.tasks.size());
  for (const json& t : spec["tasks"]) {
    for (const json& f : t.value("outputFiles", json::array()))
      outputs[id[text_of(t, "id")]].insert(f.get<std::string>());
  }
  for (const json& t : spec["tasks"]) {
    const plan::TaskId to = id[text_of(t, "id")];
    for (const json& parent : t.value("parents", json::array())) {
      const std::string name = parent.get<std::string>();
      if (!id.count(name))
        throw "task '" + input.tasks[to].name + "' names the parent '" + name + "', which is no task";
      double bytes = 0;
      for (const json& f : t.value("inputFiles", json::array())) {
        if (outputs[id[name]].count(f.get<std::string>())) bytes += size[f.get<std::string>()];
      }
      input.edges.push_back({id[name], to, bytes});
    }
  }
}

// Standard Task Graph set: a count, then a line per task: id, time, number of predecessors, predecessors. Two
// dummy tasks (entry and exit, time 0) are counted by some files and not by others, so lines are read until
// they end.
bool read_stg(const std::string& text, PlanInput& input, std::string& error) {
  input.kind = PlanInput::Kind::stg;
  std::istringstream lines(text);
  std::string line;
  bool first = true;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    if (first) {
      long count = 0;
      if (!(in >> count) || count <= 0)
        return error =
                   "this is neither JSON nor a Standard Task Graph (which starts with the number of tasks)",
               false;
      first = false;
      continue;
    }
    long id = 0, predecessors = 0;
    double seconds = 0;
    if (!(in >> id >> seconds >> predecessors) || id != static_cast<long>(input.tasks.size()) ||
        predecessors < 0) {
      return error = "STG line '" + line + "' is not 'id time predecessors ...' with ids in order", false;
    }
    PlanTask task;
    task.name = "t" + std::to_string(id);
    task.reference_seconds = seconds;
    for (long i = 0, from = 0; i < predecessors; ++i) {
      if (!(in >> from) || from < 0 || from >= id)
        return error = "STG task " + std::to_string(id) + " names a predecessor that is not before it", false;
      input.edges.push_back({static_cast<plan::TaskId>(from), static_cast<plan::TaskId>(id), 0});
    }
    input.tasks.push_back(std::move(task));
  }
  if (input.tasks.empty()) return error = "the task graph has no tasks", false;
  return true;
}

double rate(const profiles::Profile& p, const std::string& format) {
  if (format == "fp64") return p.fp64.value;
  if (format == "fp32") return p.fp32.value;
  if (format == "tf32") return p.tf32_tensor.value;
  if (format == "bf16") return p.bf16_tensor.value;
  if (format == "fp16") return p.fp16_tensor.value ? p.fp16_tensor.value : p.bf16_tensor.value;
  if (format == "fp8") return p.fp8_tensor.value;
  if (format == "fp4") return p.fp4_tensor.value;
  return -1;
}

// A recorded task on another model: kernels by waves and rates, memory operations by bandwidth, copies over
// the host link and host functions as they were.
double recorded_seconds(const PlanTask& task, const profiles::Profile& from, const profiles::Profile& to) {
  if (&from == &to || task.kind == "copy" || task.kind == "host") return task.reference_seconds;
  if (task.kind == "memset" || task.kind == "graph")
    return task.reference_seconds * from.memory_bandwidth.value / to.memory_bandwidth.value;
  const placement::ScaleRange r =
      placement::scale_range({1, task.blocks, std::max(1u, task.block_threads)}, from, to);
  return task.reference_seconds * std::sqrt(r.memory * r.compute);
}

}  // namespace

bool read_plan_text(const std::string& text, PlanInput& input, std::string& error) {
  input = {};
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) return error = "the file is empty", false;
  if (is_recorded_run(text)) {
    RecordedRun run;
    if (!parse_recorded_run(text, run, error)) return false;
    return plan_of(run, input), true;
  }
  if (text[start] != '{' && text[start] != '[') return read_stg(text, input, error);
  try {
    const json root = json::parse(text);
    if (root.is_object() && root.contains("workflow"))
      read_wfcommons(root, input);
    else if (root.is_object() && root.contains("tasks"))
      read_shunt(root, input);
    else
      return error = "the JSON has neither 'tasks' (shunt's format) nor 'workflow' (WfCommons)", false;
  } catch (const std::string& what) {
    return error = what, false;
  } catch (const json::exception& e) {
    return error = std::string("the JSON cannot be read: ") + e.what(), false;
  }
  if (input.tasks.empty()) return error = "the task graph has no tasks", false;
  return true;
}

bool read_plan_file(const std::string& path, PlanInput& input, std::string& error) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    return error = "cannot read '" + path + "': does it exist, and is it not empty?", false;
  if (!read_plan_text(text.str(), input, error)) return error = "'" + path + "': " + error, false;
  return true;
}

double roofline_seconds(const profiles::Profile& p, const PlanTask& task, std::string& error) {
  const double peak = rate(p, task.format);
  if (peak < 0)
    return error = "task '" + task.name + "' has the format '" + task.format +
                   "'; known: fp64 fp32 tf32 bf16 fp16 fp8 fp4",
           plan::kCannotRun;
  if (peak == 0 && task.flops > 0) return plan::kCannotRun;  // the device lacks the format
  const double compute = task.flops > 0 ? task.flops / (peak * p.compute_efficiency.value) : 0;
  const double memory = task.bytes / (p.memory_bandwidth.value * p.memory_efficiency.value);
  return std::max(compute, memory) + p.launch_ns.value * 1e-9;
}

bool make_problem(const PlanInput& input, const simgpu::BoxSpec& box, const std::string& reference,
                  plan::Problem& problem, std::string& error) {
  problem = {};
  const profiles::Profile* base = profiles::find(reference);
  if (!base) return error = "'" + reference + "' is no device profile: see shunt devices --profiles", false;
  const size_t m = box.devices.size();
  std::map<std::string, int> count;
  for (const auto& d : box.devices) {
    const profiles::Profile& p = *d.profile;
    plan::Device device;
    device.name = std::string(p.key) + "-" + std::to_string(count[std::string(p.key)]++);
    device.memory_bytes = static_cast<double>(d.memory_bytes);
    device.busy_w = d.power_limit_w > 0 ? d.power_limit_w : p.power_default_w.value;
    device.idle_w = p.idle_w.value;
    // Dynamic power falls with about the cube of the clock; assumed, like every power step here.
    for (double speed : {0.93, 0.85}) device.power_steps.push_back({speed * speed * speed, speed});
    problem.devices.push_back(std::move(device));
  }
  for (const PlanTask& task : input.tasks) {
    problem.tasks.push_back({task.name, task.memory_bytes});
    for (const auto& d : box.devices) {
      const profiles::Profile& p = *d.profile;
      double seconds;
      if (input.kind == PlanInput::Kind::recorded) {
        const profiles::Profile* measured = profiles::find(task.measured_on);
        seconds = recorded_seconds(task, measured ? *measured : *base, p);
      } else if (auto own = task.seconds.find(std::string(p.key)); own != task.seconds.end())
        seconds = own->second;
      else if (!task.seconds.empty() && task.flops == 0 && task.bytes == 0)
        seconds = plan::kCannotRun;
      else if (task.reference_seconds >= 0)
        seconds = input.kind == PlanInput::Kind::stg
                      ? task.reference_seconds
                      : task.reference_seconds * base->memory_bandwidth.value / p.memory_bandwidth.value;
      else
        seconds = roofline_seconds(p, task, error);
      if (!error.empty()) return false;
      problem.seconds.push_back(seconds);
    }
  }
  problem.edges = input.edges;
  problem.bytes_per_s.assign(m * m, 1);
  problem.latency_s.assign(m * m, 0);
  for (size_t a = 0; a < m; ++a) {
    for (size_t b = 0; b < m; ++b) {
      if (a == b) continue;
      // Without a peer link data goes through the host: two hops over the slower host link.
      const double direct = box.link[a][b] == simgpu::LinkKind::none ? 0 : box.link_bytes_per_s[a][b];
      const double host = std::min(box.host_link_bytes_per_s[a], box.host_link_bytes_per_s[b]) / 2;
      problem.bytes_per_s[a * m + b] = direct > 0 ? direct : host;
      problem.latency_s[a * m + b] = box.devices[a].profile->peer_latency_ns.value * 1e-9;
    }
  }
  return problem.validate(error);
}

}  // namespace shunt::tool
