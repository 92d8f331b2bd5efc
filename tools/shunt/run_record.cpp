#include "tools/shunt/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/base/clock.h"
#include "runtime/trace/paths.h"
#include "tools/shunt/version.h"

namespace shunt::tool {

void write_run_record(const std::string& folder, const std::vector<std::string>& arguments,
                      const config::Config& config, const std::vector<placement::DeviceFacts>& devices,
                      const placement::Plan& plan, const DecisionInputs& inputs) {
  nlohmann::ordered_json j;
  j["schema"] = 1;
  j["writer"] = "shunt run";
  j["shunt"] = kVersion;
  j["argv"] = arguments;
  j["host"] = trace::host_name();
  j["pid"] = getpid();
  j["rank"] = trace::job_rank();
  j["start_realtime_ns"] = clock::realtime_ns();
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd)) j["cwd"] = cwd;
  for (const config::OptionInfo& o : config::options()) {
    const config::Setting& s = config.setting(o.id);
    j["settings"][std::string(o.name)] = {
        {"value", s.text}, {"origin", config::origin_name(s.origin)}, {"source", s.source}};
  }
  j["devices"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < devices.size(); i++) {
    const placement::DeviceFacts& d = devices[i];
    nlohmann::ordered_json device{{"ordinal", d.ordinal},
                                  {"uuid", d.uuid},
                                  {"name", d.name},
                                  {"model", d.profile ? std::string(d.profile->key) : ""},
                                  {"total_bytes", d.total_bytes},
                                  {"free_bytes", d.free_bytes},
                                  {"memory_known", d.memory_known},
                                  {"memory_source", inputs.simulated ? "simulated box" : "NVML"},
                                  {"processes", d.processes},
                                  {"utilisation_pct", d.utilisation_pct}};
    if (d.profile) {
      const profiles::Value& rate =
          d.profile->bf16_tensor.value > 0 ? d.profile->bf16_tensor : d.profile->fp32;
      device["rate_flops"] = {{"value", rate.value},
                              {"mark", std::string(1, profiles::mark_letter(rate.mark))}};
    }
    if (i < inputs.request.predictions.size()) {
      const placement::Estimate& e = inputs.request.predictions[i];
      device["predicted"] = {{"seconds", e.seconds},
                             {"sigma", e.sigma},
                             {"source", source_name(e.source)},
                             {"samples", e.samples}};
      if (e.source == placement::Source::scaled)
        device["predicted"].update({{"from", std::string(e.from->key)}, {"mark", std::string(1, e.mark)}});
    }
    j["devices"].push_back(std::move(device));
  }
  j["placement"] = {{"device", plan.device >= 0 ? devices[static_cast<size_t>(plan.device)].uuid : ""},
                    {"reason", reason_name(plan.reason)},
                    {"why", plan.why},
                    {"changed", plan.changed},
                    {"need_bytes", plan.need_bytes},
                    {"need_source", plan.need_bytes == 0     ? "none"
                                    : plan.need_from_history ? "history"
                                                             : "hint"},
                    {"margin_pct", inputs.rules.margin_pct},
                    {"rules_origin", inputs.rules_origin},
                    {"rule", plan.rule},
                    {"other_model", plan.other_model}};
  for (const placement::Considered& c : plan.considered)
    j["placement"]["considered"].push_back({{"ordinal", devices[static_cast<size_t>(c.device)].ordinal},
                                            {"feasible", c.feasible},
                                            {"reason", reason_name(c.reason)}});
  const std::string text = j.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const int fd = open((folder + "/run.json").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return;  // another rank of the job was first
  const ssize_t ignored = write(fd, text.data(), text.size());
  (void)ignored;
  close(fd);
}

}  // namespace shunt::tool
