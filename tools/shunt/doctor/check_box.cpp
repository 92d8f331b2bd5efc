#include <algorithm>
#include <map>
#include <set>

#include "tools/shunt/doctor/finding.h"

namespace shunt::tool::doctor {
namespace {

std::string label(const monitor::Device& d) {
  return "GPU " + std::to_string(d.identity.nvml_index) + " (" + d.identity.display_name() + ")";
}

std::string list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

void driver(const monitor::Snapshot& box, Findings& out) {
  const std::string version = "driver " + box.driver_version + ", CUDA " +
                              std::to_string(box.cuda_version / 1000) + "." +
                              std::to_string(box.cuda_version % 1000 / 10);
  if (box.cuda_version && box.cuda_version < 12040)
    out.push_back({Severity::warning, "driver",
                   version + ": shunt's graphs engine needs 12.4 (cuFuncGetParamInfo)",
                   "install a newer driver; until then launches pass through"});
  else
    out.push_back({Severity::fine, "driver", version, ""});
}

void models(const monitor::Snapshot& box, Findings& out) {
  std::map<std::string, int> models;
  std::set<uint32_t> capabilities;
  std::vector<std::string> unknown;
  for (const monitor::Device& d : box.devices) {
    models[d.identity.display_name()]++;
    capabilities.insert(d.identity.cc_major * 10 + d.identity.cc_minor);
    if (!d.identity.profile) unknown.push_back(label(d));
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : models) words.push_back(std::to_string(count) + " x " + name);
  if (capabilities.size() > 1)
    out.push_back({Severity::note, "mixed-models",
                   list(words) + ": NCCL on more than one compute capability loses LL128 and NVLS",
                   "keep a job's ranks on one model (shunt run does by default)"});
  else
    out.push_back({Severity::fine, "models", list(words), ""});
  if (!unknown.empty())
    out.push_back({Severity::note, "unknown-model",
                   list(unknown) + ": no profile, so placement has no rates for it",
                   "add a profile to runtime/profiles/data"});
}

void links(const monitor::Snapshot& box, Findings& out) {
  bool any = false;
  std::vector<std::string> down, up;
  std::set<size_t> counts;
  for (const monitor::Device& d : box.devices) {
    std::vector<std::string> inactive;
    for (size_t i = 0; i < d.now.links.size(); i++)
      if (d.now.links[i].state == monitor::LinkState::inactive) inactive.push_back(std::to_string(i));
    if (d.now.links.empty()) continue;
    counts.insert(d.now.links_active());
    if (inactive.size() == d.now.links.size()) continue;  // nothing is connected to them
    any = true;
    if (!inactive.empty())
      down.push_back(label(d) + ": link" + (inactive.size() > 1 ? "s " : " ") + list(inactive) + " of " +
                     std::to_string(d.now.links.size()) + " down");
    else
      up.push_back(label(d) + ": " + std::to_string(d.now.links.size()) + " links up");
  }
  for (const std::string& text : down)
    out.push_back({Severity::error, "nvlink", text,
                   "reset or replace the device, or leave it out: NCCL slows to its slowest ring"});
  if (any && down.empty()) out.push_back({Severity::fine, "nvlink", list(up), ""});
  if (!any && box.devices.size() > 1)
    out.push_back({Severity::note, "nvlink",
                   "no NVLink between the devices: peers copy over PCIe or the host",
                   "expect collectives at PCIe speed"});
}

void fabric(const monitor::Snapshot& box, Findings& out) {
  constexpr uint32_t kNotSupported = 0, kCompleted = 3;
  std::set<uint32_t> cliques;
  for (const monitor::Device& d : box.devices) {
    if (!d.now.fabric || d.now.fabric->state == kNotSupported) continue;
    cliques.insert(d.now.fabric->clique);
    if (d.now.fabric->state != kCompleted)
      out.push_back({Severity::error, "fabric", label(d) + ": fabric registration is not complete",
                     "start nvidia-fabricmanager (or IMEX) and see its log"});
    if (d.now.fabric->health_mask && (d.now.fabric->health_mask & 3) == 1)
      out.push_back({Severity::warning, "fabric", label(d) + ": fabric bandwidth is degraded",
                     "see nvidia-smi -q, section Fabric"});
  }
  if (cliques.size() > 1)
    out.push_back({Severity::note, "fabric",
                   "the devices are in " + std::to_string(cliques.size()) + " fabric cliques",
                   "NVLink SHARP works within one clique only"});
}

void state(const monitor::Snapshot& box, Findings& out) {
  for (const monitor::Device& d : box.devices) {
    if (d.now.health.lost)
      out.push_back(
          {Severity::error, "lost", label(d) + " does not answer", "reset it, or restart the machine"});
    if (d.now.health.ecc_uncorrected.value_or(0) > 0)
      out.push_back(
          {Severity::error, "ecc",
           label(d) + ": " + std::to_string(*d.now.health.ecc_uncorrected) + " uncorrected memory errors",
           "drain and reset the device; replace it if they come back"});
    if (d.now.health.recovery_action.value_or(0) > 0)
      out.push_back({Severity::error, "recovery", label(d) + ": the driver asks for a recovery action",
                     "nvidia-smi -q names it (section GPU Recovery Action)"});
    const monitor::Power& p = d.now.power;
    if (p.limit_w && p.default_limit_w && *p.limit_w < *p.default_limit_w - 0.5) {
      char text[160];
      snprintf(text, sizeof text, "%s: power limit %.0f W, default %.0f W", label(d).c_str(), *p.limit_w,
               *p.default_limit_w);
      out.push_back(
          {Severity::warning, "power-limit", text, "nvidia-smi -pl restores it, if nobody wanted the cap"});
    }
    if (d.identity.mig_enabled)
      out.push_back({Severity::note, "mig", label(d) + " is split by MIG: no peers, no utilisation",
                     "turn MIG off where a job needs the whole device"});
  }
}

}  // namespace

void check_box(const monitor::Snapshot& box, Findings& out) {
  driver(box, out);
  models(box, out);
  links(box, out);
  fabric(box, out);
  state(box, out);
}

}  // namespace shunt::tool::doctor
