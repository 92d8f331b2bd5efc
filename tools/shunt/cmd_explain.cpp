// `shunt explain RUN`: why a run's device was chosen, each number with where it comes from.
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/config/options.h"
#include "tools/shunt/console.h"
#include "tools/shunt/plan/plan_render.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

using nlohmann::json;

constexpr const char* kUsage =
    "Usage: shunt explain RUN [--json]\n\n"
    "RUN is the directory that `shunt run -o RUN` wrote. Shows what its placement was decided from and why "
    "each "
    "device\nwas taken or not. Marks of profile figures: C captured from hardware, D vendor document, A "
    "announced, "
    "L third\nparty, K assumed. Times: measured, few (under 5 samples), regression over sizes, scaled from "
    "another "
    "model.\n";

std::string predicted_text(const json& device) {
  const auto at = device.find("predicted");
  if (at == device.end() || at->value("source", "none") == "none") return "-";
  const std::string source = at->value("source", "");
  return fmt::format(
      "{} +- {} [{}]", seconds_text(at->value("seconds", 0.0)), seconds_text(at->value("sigma", 0.0)),
      source == "scaled" ? fmt::format("scaled from {}, {}", at->value("from", "?"), at->value("mark", "K"))
                         : fmt::format("{}, n={}", source, at->value("samples", 0)));
}

std::string verdict(const json& placement, const json& device) {
  if (device.value("uuid", "") == placement.value("device", "-")) return "taken";
  for (const json& c : placement.value("considered", json::array()))
    if (c.value("ordinal", -1) == device.value("ordinal", -2)) {
      const std::string reason = c.value("reason", "none");
      return reason != "none" ? reason : c.value("feasible", false) ? "fits" : "no";
    }
  return "not visible";
}

int explain(const std::string& path, bool as_json) {
  struct stat st {};
  std::string file = path;
  if (stat(file.c_str(), &st) != 0) file += ".shunt";
  if (stat(file.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) file += "/run.json";
  std::ifstream in(file);
  if (!in) return fail(kFailed, "explain: no run '" + path + "'; record one with shunt run -o NAME");
  const json run = json::parse(in, nullptr, false);
  if (!run.is_object() || !run.contains("placement") || !run["placement"].is_object())
    return fail(1,
                "explain: '" + file + "' says nothing of a placement: damaged, or written by a bare preload");
  const json& p = run["placement"];
  const json devices = run.value("devices", json::array());
  if (as_json) {
    json out{{"placement", p}, {"devices", devices}};
    fmt::print("{}\n", out.dump(1));
    return 0;
  }
  std::string command;
  for (const json& a : run.value("argv", json::array()))
    command += (command.empty() ? "" : " ") + a.get<std::string>();
  fmt::print("{}\n", command);
  fmt::print("{} [{}]{}\n\n", p.value("why", ""), p.value("reason", ""),
             p.value("changed", false) ? "" : ", nothing changed");

  std::vector<std::vector<std::string>> rows{{"number", "value", "source"}};
  const uint64_t need = p.value("need_bytes", uint64_t{0});
  std::string hint = "no hint, no history";
  if (p.value("need_source", "") == "history") hint = "history: largest working set of earlier runs";
  if (p.value("need_source", "") == "hint") {
    const json setting = run.value("settings", json::object()).value("hint", json::object());
    hint = "hint " + setting.value("value", "") + " (" + setting.value("source", "") + ")";
  }
  rows.push_back({"need", need ? config::format_bytes(need) : "unknown", hint});
  const std::string rules = p.value("rules_origin", "");
  rows.push_back({"margin", fmt::format("{:g} %", p.value("margin_pct", 8.0)), "rules " + rules});
  if (const std::string rule = p.value("rule", ""); !rule.empty())
    rows.push_back({"rule", rule, "rules " + rules});
  const json mode = run.value("settings", json::object()).value("placement", json::object());
  rows.push_back({"mode", mode.value("value", ""),
                  mode.value("source", "").empty() ? "default" : mode.value("source", "")});
  fmt::print("{}\n", table(rows));

  rows = {{"GPU", "model", "free", "of", "source", "rate", "verdict"}};
  for (const json& d : devices) {
    const bool known = d.value("memory_known", true);
    const json rate = d.value("rate_flops", json::object());
    rows.push_back({std::to_string(d.value("ordinal", -1)),
                    d.value("model", "").empty() ? d.value("name", "?") : d.value("model", ""),
                    known ? config::format_bytes(d.value("free_bytes", uint64_t{0})) : "unknown",
                    config::format_bytes(d.value("total_bytes", uint64_t{0})), d.value("memory_source", "?"),
                    rate.empty() ? "-"
                                 : fmt::format("{:.4g} TF [{}]", rate.value("value", 0.0) * 1e-12,
                                               rate.value("mark", "?")),
                    verdict(p, d)});
  }
  fmt::print("{}", table(rows));
  bool any = false;
  for (const json& d : devices) any |= predicted_text(d) != "-";
  if (!any) return fmt::print("\nNo predicted times: shunt run --history=on makes a history.\n"), 0;
  fmt::print("\nPredicted device time of one run (mean +- deviation [source]):\n");
  for (const json& d : devices)
    fmt::print("  GPU {} {}: {}\n", d.value("ordinal", -1), d.value("model", ""), predicted_text(d));
  return 0;
}

int explain_verb(const std::vector<std::string>& arguments) {
  bool as_json = false;
  std::string path;
  for (const std::string& a : arguments) {
    if (a == "--help" || a == "-h") return printf("%s", kUsage) > 0 ? 0 : kFailed;
    if (a == "--json")
      as_json = true;
    else if (path.empty() && !a.starts_with("-"))
      path = a;
    else
      return fail(kFailed, "explain: unexpected argument '" + a + "'; usage: shunt explain RUN [--json]");
  }
  if (path.empty()) return fail(kFailed, "explain: no run given; usage: shunt explain RUN [--json]");
  try {
    return explain(path, as_json);
  } catch (const json::exception& e) {
    return fail(1, "explain: '" + path + "' has fields of the wrong kind: " + e.what());
  }
}

SHUNT_VERB("explain", 55, "why a run's device was chosen, number by number", explain_verb)

}  // namespace
}  // namespace shunt::tool
