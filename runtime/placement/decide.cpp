#include "runtime/placement/decide.h"

#include <algorithm>
#include <cstdio>

#include "runtime/placement/visible.h"

namespace shunt::placement {
namespace {

constexpr double kMemoryMargin = 1.08;   // allocator slack and contexts
constexpr double kFreeTolerance = 0.02;  // smaller differences in free memory do not move a program
constexpr uint64_t kLongContext = 64 * 1024;
constexpr uint64_t kSmallBatch = 8;

// What hints other than mem= and model= prefer. The big device is the model with most memory among the
// visible ones.
enum class Preference { none, most_memory, least_memory };

Preference preference(const config::Hints& hints) {
  if (hints.context_tokens > kLongContext) return Preference::most_memory;
  if (hints.role == "forward") return Preference::most_memory;
  if (hints.role == "augment") return Preference::least_memory;
  if (hints.role == "train" && hints.batch > 0 && hints.batch <= kSmallBatch) return Preference::least_memory;
  return Preference::none;
}

uint64_t needed_bytes(const config::Hints& h) {
  const double kv = static_cast<double>(h.context_tokens) * static_cast<double>(h.kv_bytes_per_token) *
                    static_cast<double>(std::max<uint64_t>(h.batch, 1));
  const double total = static_cast<double>(h.mem_bytes) + kv;
  return total > 9e18 ? UINT64_C(9000000000000000000) : static_cast<uint64_t>(total);
}

double rate(const DeviceFacts& d) {
  if (!d.profile) return 0;
  return d.profile->bf16_tensor.value > 0 ? d.profile->bf16_tensor.value : d.profile->fp32.value;
}

std::string describe(const DeviceFacts& d) { return "GPU " + std::to_string(d.ordinal); }

std::string memory_text(const DeviceFacts& d) {
  if (!d.memory_known) return "free memory unknown";
  return config::format_bytes(d.free_bytes) + " free of " + config::format_bytes(d.total_bytes);
}

struct Chooser {
  const Request& request;
  const std::vector<DeviceFacts>& facts;
  Plan& plan;
  Preference wish;

  bool memory_fits(const DeviceFacts& d) const {
    return plan.need_bytes == 0 ||
           (d.memory_known &&
            static_cast<double>(d.free_bytes) >= static_cast<double>(plan.need_bytes) * kMemoryMargin);
  }

  // True when a is clearly the better place than b; equal devices keep the program's own order.
  bool better(const DeviceFacts& a, const DeviceFacts& b, bool across_models) const {
    if (across_models) {
      if (wish == Preference::most_memory && a.total_bytes != b.total_bytes)
        return a.total_bytes > b.total_bytes;
      if (wish == Preference::least_memory && a.total_bytes != b.total_bytes)
        return a.total_bytes < b.total_bytes;
    }
    if (a.busy() != b.busy()) return !a.busy();
    if (across_models && request.mode == Mode::mixed && rate(a) != rate(b)) return rate(a) > rate(b);
    if (!a.memory_known || !b.memory_known) return false;
    const double tolerance = kFreeTolerance * static_cast<double>(std::max(a.total_bytes, b.total_bytes));
    return static_cast<double>(a.free_bytes) > static_cast<double>(b.free_bytes) + tolerance;
  }

  int best(const std::vector<int>& candidates, bool across_models) const {
    int chosen = -1;
    for (const int i : candidates)
      if (chosen < 0 ||
          better(facts[static_cast<size_t>(i)], facts[static_cast<size_t>(chosen)], across_models))
        chosen = i;
    return chosen;
  }
};

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
  const DeviceFacts& usual = facts[static_cast<size_t>(first)];
  auto keep = [&](Reason reason, const std::string& why) {
    plan.device = first;
    plan.reason = reason;
    plan.why = why;
    return plan;
  };
  if (request.mode == Mode::off) return keep(Reason::mode_off, "--placement=off");
  if (request.local_ranks > 1)
    return keep(Reason::multi_rank_job,
                std::to_string(request.local_ranks) + " local ranks: each keeps the device it selects");

  Chooser chooser{request, facts, plan, preference(request.hints)};
  const bool one_model = std::all_of(visible.devices.begin(), visible.devices.end(),
                                     [&](int i) { return facts[static_cast<size_t>(i)].same_model(usual); });
  const bool wide = request.mode == Mode::mixed || !request.hints.model.empty() ||
                    (chooser.wish != Preference::none && !one_model);
  std::vector<int> feasible, usual_feasible;
  bool some_binary = false, some_memory = false;
  for (const int i : visible.devices) {
    const DeviceFacts& d = facts[static_cast<size_t>(i)];
    Considered c{i, true, Reason::none};
    const bool wrong_model =
        !request.hints.model.empty() && !(d.profile && d.profile->key == request.hints.model);
    if (!binary_fits(request, d))
      c = {i, false, Reason::no_binary_for_device};
    else if (some_binary = true; !chooser.memory_fits(d))
      c = {i, false, d.memory_known ? Reason::memory_infeasible : Reason::no_monitor};
    else if (some_memory = true; wrong_model)
      c = {i, false, Reason::other_model};
    if (c.feasible) {
      feasible.push_back(i);
      if (d.same_model(usual)) usual_feasible.push_back(i);
    }
    plan.considered.push_back(c);
  }
  if (feasible.empty()) {
    std::string why;
    if (!some_binary)
      return keep(Reason::no_binary_for_device,
                  "the program has no code that runs on any visible device; default device kept");
    if (!some_memory)
      why = "no visible device has " + config::format_bytes(plan.need_bytes) + " + 8 % free";
    else
      why = "no visible device is a '" + request.hints.model + "' that fits";
    return keep(Reason::no_feasible_device, why + "; default device kept");
  }
  // Only what the default model cannot do, or a hint or mode that says so, widens the choice to other models.
  const bool across = wide || usual_feasible.empty();
  plan.device = chooser.best(across ? feasible : usual_feasible, across);
  const DeviceFacts& chosen = facts[static_cast<size_t>(plan.device)];
  plan.other_model = !chosen.same_model(usual);
  for (Considered& c : plan.considered) {
    const DeviceFacts& d = facts[static_cast<size_t>(c.device)];
    if (!c.feasible || c.device == plan.device) continue;
    if (!across && !d.same_model(usual))
      c.reason = Reason::other_model;
    else if (d.busy() && !chosen.busy())
      c.reason = Reason::device_busy;
  }

  if (plan.device == first) {
    plan.reason = visible.devices.size() == 1 ? Reason::single_device : Reason::placed_default;
    plan.why = visible.devices.size() == 1 ? "the only visible device" : "CUDA's default device";
    if (plan.need_bytes) plan.why += ", fits mem " + config::format_bytes(plan.need_bytes) + " + 8 %";
    plan.why += ", " + memory_text(chosen);
    return plan;
  }
  if (!plan.other_model) {
    plan.reason = Reason::placed_most_free;
    plan.why = usual.busy() && !chosen.busy() ? "idle, " + describe(usual) + " is in use"
                                              : "most free memory of its model";
    if (usual_feasible.empty() ||
        std::find(usual_feasible.begin(), usual_feasible.end(), first) == usual_feasible.end())
      plan.why = "fits " + config::format_bytes(plan.need_bytes) + " + 8 %, " + describe(usual) + " does not";
  } else if (!request.hints.model.empty()) {
    plan.reason = Reason::role_hint_model;
    plan.why = "hint model=" + request.hints.model;
  } else if (usual_feasible.empty()) {
    const bool memory = !chooser.memory_fits(usual);
    plan.reason = memory ? Reason::placed_memory_hint : Reason::no_binary_for_device;
    plan.why = memory ? "needs " + config::format_bytes(plan.need_bytes) + " + 8 %, the default device has " +
                            config::format_bytes(usual.free_bytes) + " free"
                      : "the program has no code for the default device";
  } else if (chooser.wish != Preference::none) {
    plan.reason = Reason::placed_role_hint;
    plan.why = !request.hints.role.empty() ? "hint role=" + request.hints.role
                                           : "hint context=" + std::to_string(request.hints.context_tokens);
  } else {
    plan.reason = Reason::placed_mixed;
    plan.why = "--placement=mixed";
  }
  plan.why += ", " + memory_text(chosen);
  // The chosen device first, then what also fits, then the rest: nothing that was visible disappears.
  std::vector<int> order{plan.device};
  for (const int pass : {0, 1})
    for (const Considered& c : plan.considered)
      if (c.device != plan.device && c.feasible == (pass == 0)) order.push_back(c.device);
  plan.order = std::move(order);
  plan.changed = true;
  return plan;
}

}  // namespace shunt::placement
