#include "runtime/placement/decide.h"

#include <algorithm>

#include "runtime/placement/choose.h"
#include "runtime/placement/visible.h"

namespace shunt::placement {
namespace {

uint64_t needed_bytes(const config::Hints& h) {
  const double kv = static_cast<double>(h.context_tokens) * static_cast<double>(h.kv_bytes_per_token) *
                    static_cast<double>(std::max<uint64_t>(h.batch, 1));
  const double total = static_cast<double>(h.mem_bytes) + kv;
  return total > 9e18 ? UINT64_C(9000000000000000000) : static_cast<uint64_t>(total);
}

std::string describe(const DeviceFacts& d) { return "GPU " + std::to_string(d.ordinal); }

std::string memory_text(const DeviceFacts& d) {
  if (!d.memory_known) return "free memory unknown";
  return config::format_bytes(d.free_bytes) + " free of " + config::format_bytes(d.total_bytes);
}

}  // namespace

Mode parse_mode(const std::string& text) {
  return text == "off"      ? Mode::off
         : text == "shadow" ? Mode::shadow
         : text == "mixed"  ? Mode::mixed
                            : Mode::on;
}

bool binary_fits(const Request& request, const DeviceFacts& device) {
  if (!request.program || request.program->empty() || device.compute_capability == 0) return true;
  const binary::Choice choice =
      binary::choose(*request.program, device.compute_capability, request.allow_newer_ptx);
  return choice.ptx >= 0 || (choice.elf >= 0 && !request.ptx_only);
}

std::string Plan::visible_devices(const std::vector<DeviceFacts>& facts) const {
  std::string out;
  for (const int i : order) out += (out.empty() ? "" : ",") + facts[static_cast<size_t>(i)].uuid;
  return out;
}

Plan decide(const Request& request, const std::vector<DeviceFacts>& facts) {
  Plan plan;
  const Visible visible = parse_visible(request.visible_devices, facts);
  plan.order = visible.devices;
  plan.need_bytes = needed_bytes(request.hints);
  if (plan.need_bytes == 0 && request.history_need_bytes > 0) {
    plan.need_bytes = request.history_need_bytes;
    plan.need_from_history = true;
  }
  if (visible.opaque) {
    plan.reason = Reason::visible_devices_kept;
    plan.why = "CUDA_VISIBLE_DEVICES left as it is: " + visible.why;
    return plan;
  }
  if (visible.devices.empty()) {
    plan.reason = Reason::no_device;
    plan.why = facts.empty() ? "no CUDA device found" : "CUDA_VISIBLE_DEVICES hides every device";
    return plan;
  }
  const int first = visible.devices.front();
  auto fact = [&](int i) -> const DeviceFacts& { return facts[static_cast<size_t>(i)]; };
  const DeviceFacts& usual = fact(first);
  auto keep = [&](Reason reason, const std::string& why) {
    plan.device = first;
    plan.reason = reason;
    plan.why = why;
    return plan;
  };
  if (request.mode == Mode::off) return keep(Reason::mode_off, "--placement=off");
  if (request.local_ranks > 1 && !request.whole_job)
    return keep(Reason::multi_rank_job,
                std::to_string(request.local_ranks) + " local ranks: each keeps the device it selects");

  const RuleSet& rules = request.rules ? *request.rules : default_rules();
  Chooser chooser{request, facts, rules, plan.need_bytes};
  const bool one_model = std::all_of(visible.devices.begin(), visible.devices.end(),
                                     [&](int i) { return fact(i).same_model(usual); });
  std::vector<int> feasible, usual_feasible;
  bool some_binary = false, some_memory = false;
  for (const int i : visible.devices) {
    const DeviceFacts& d = fact(i);
    Considered c{i, true, Reason::none};
    if (!binary_fits(request, d))
      c = {i, false, Reason::no_binary_for_device};
    else if (some_binary = true; !chooser.memory_fits(d))
      c = {i, false, d.memory_known ? Reason::memory_infeasible : Reason::no_monitor};
    else if (some_memory = true; !chooser.is_model(d, request.hints.model))
      c = {i, false, Reason::other_model};
    if (c.feasible) {
      feasible.push_back(i);
      if (d.same_model(usual)) usual_feasible.push_back(i);
    }
    plan.considered.push_back(c);
  }
  const std::string need = config::format_bytes(plan.need_bytes) + chooser.margin_text() +
                           (plan.need_from_history ? " (history)" : "");
  if (feasible.empty()) {
    if (!some_binary)
      return keep(Reason::no_binary_for_device,
                  "the program has no code that runs on any visible device; default device kept");
    const std::string why = !some_memory ? "no visible device has " + need + " free"
                                         : "no visible device is a '" + request.hints.model + "' that fits";
    return keep(Reason::no_feasible_device, why + "; default device kept");
  }
  // A rule widens the choice only where there is something to choose from; model= is stronger than any rule.
  std::vector<int> ruled = feasible;
  if (!one_model && request.hints.model.empty())
    chooser.rule = chooser.first_rule(visible.devices, feasible, usual, ruled);
  // Only what the default model cannot do, or a hint, rule or mode that says so, widens the choice to other
  // models.
  const bool across =
      request.mode == Mode::mixed || !request.hints.model.empty() || chooser.rule || usual_feasible.empty();
  const std::vector<int>& candidates = across ? ruled : usual_feasible;
  const Gang gang = chooser.best(candidates, across);
  plan.device = gang.members.front();
  const DeviceFacts& chosen = fact(plan.device);
  plan.other_model = !chosen.same_model(usual);
  if (chooser.rule) plan.rule = chooser.rule->name;
  for (Considered& c : plan.considered) {
    const DeviceFacts& d = fact(c.device);
    if (!c.feasible || c.device == plan.device) continue;
    if (!across && !d.same_model(usual))
      c.reason = Reason::other_model;
    else if (d.busy() && !chosen.busy())
      c.reason = Reason::device_busy;
  }

  plan.order = chooser.order(visible.devices, plan.considered, gang);
  if (plan.device == first) {
    // One device: nothing but the first place matters, and the program's own order of the others is kept.
    if (request.hints.devices <= 1) plan.order = visible.devices;
    plan.changed = plan.order != visible.devices;
    plan.reason = visible.devices.size() == 1 ? Reason::single_device : Reason::placed_default;
    plan.why = visible.devices.size() == 1 ? "the only visible device" : "CUDA's default device";
    if (plan.need_bytes) plan.why += ", fits mem " + need;
    plan.why += ", " + memory_text(chosen) + gang.text;
    return plan;
  }
  if (!plan.other_model) {
    plan.reason = Reason::placed_most_free;
    plan.why = usual.busy() && !chosen.busy() ? "idle, " + describe(usual) + " is in use"
                                              : "most free memory of its model";
    if (std::find(usual_feasible.begin(), usual_feasible.end(), first) == usual_feasible.end())
      plan.why = "fits " + need + ", " + describe(usual) + " does not";
    else if (!gang.text.empty() && !(usual.busy() && !chosen.busy()))
      plan.why = "best group of its model";
  } else if (!request.hints.model.empty()) {
    plan.reason = Reason::role_hint_model;
    plan.why = "hint model=" + request.hints.model;
  } else if (usual_feasible.empty()) {
    const bool memory = !chooser.memory_fits(usual);
    plan.reason = memory ? Reason::placed_memory_hint : Reason::no_binary_for_device;
    plan.why = memory ? "needs " + need + ", the default device has " +
                            config::format_bytes(usual.free_bytes) + " free"
                      : "the program has no code for the default device";
  } else if (chooser.rule) {
    plan.reason = Reason::placed_role_hint;
    plan.why = "rule " + chooser.rule->name + " (" + chooser.rule->conditions() + ")";
  } else {
    plan.reason = Reason::placed_mixed;
    plan.why = "--placement=mixed" + gang.prediction;
  }
  plan.why += ", " + memory_text(chosen) + gang.text;
  plan.changed = true;
  return plan;
}

}  // namespace shunt::placement
