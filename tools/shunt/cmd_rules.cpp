// `shunt rules`: the placement rules in effect, the file to edit, and whether a file is well-formed.
#include <stdio.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/shunt/console.h"
#include "tools/shunt/rules/rules_file.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

constexpr const char* kUsage =
    "Usage: shunt rules show [--rules FILE] [--json | --compact]\n"
    "       shunt rules show --default\n"
    "       shunt rules check FILE...\n\n"
    "show       the rules `shunt run` uses and where they come from; --compact as SHUNT_RULE_SET takes "
    "them,\n"
    "           for a bare preload\n"
    "--default  the file shipped with shunt, explained, to be edited\n"
    "check      reads a file and reports every error in it; exit status 1 if there is one\n\n"
    "Examples:\n"
    "  shunt rules show --default > ~/.config/shunt/rules.toml\n"
    "  shunt rules check rules.toml\n"
    "  shunt run --rules rules.toml --hint role=forward -- ./train\n";

std::string preference(const placement::Rule& rule) {
  return std::string(prefer_name(rule.prefer)) +
         (rule.prefer == placement::Prefer::model ? ":" + rule.model : "");
}

int report(const std::vector<std::string>& errors) {
  for (const std::string& e : errors) fail(1, e);
  return 1;
}

int check(const std::vector<std::string>& files) {
  int status = 0;
  for (const std::string& file : files) {
    placement::RuleSet rules;
    std::vector<std::string> errors;
    if (read_rules_file(file, rules, errors))
      printf("%s: %zu rules, ok\n", file.c_str(), rules.rules.size());
    else
      status = report(errors);
  }
  return status;
}

void print_json(const placement::RuleSet& set, const std::string& origin) {
  nlohmann::ordered_json out{{"origin", origin}, {"margin_pct", set.margin_pct}};
  out["rules"] = nlohmann::ordered_json::array();
  for (const placement::Rule& r : set.rules)
    out["rules"].push_back({{"name", r.name}, {"when", r.conditions()}, {"prefer", preference(r)}});
  printf("%s\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

int show(const std::vector<std::string>& arguments) {
  bool json = false, compact = false, shipped = false;
  std::string file;
  for (size_t i = 0; i < arguments.size(); i++) {
    const std::string& a = arguments[i];
    if (a == "--json")
      json = true;
    else if (a == "--compact")
      compact = true;
    else if (a == "--default")
      shipped = true;
    else if (a.starts_with("--rules="))
      file = a.substr(8);
    else if (a == "--rules" && i + 1 < arguments.size())
      file = arguments[++i];
    else
      return fail(kFailed, "rules show: unexpected argument '" + a + "'; see `shunt rules --help`");
  }
  if (shipped) return fputs(std::string(placement::default_rules_text()).c_str(), stdout) >= 0 ? 0 : kFailed;
  placement::RuleSet set;
  std::string origin;
  std::vector<std::string> errors;
  if (!rules_in_effect(file, set, origin, errors)) return report(errors);
  if (compact) return printf("%s\n", to_compact(set).c_str()) > 0 ? 0 : kFailed;
  if (json) return print_json(set, origin), 0;
  printf("Rules %s; a device must have the need + %g %% free.\n", origin.c_str(), set.margin_pct);
  std::vector<std::vector<std::string>> rows{{"rule", "when", "prefer"}};
  for (const placement::Rule& r : set.rules) rows.push_back({r.name, r.conditions(), preference(r)});
  printf("%s", table(rows).c_str());
  return 0;
}

int rules_verb(const std::vector<std::string>& arguments) {
  const bool help = std::any_of(arguments.begin(), arguments.end(),
                                [](const std::string& a) { return a == "--help" || a == "-h"; });
  if (arguments.empty() || help) {
    printf("%s", kUsage);
    return arguments.empty() ? kFailed : 0;
  }
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (arguments[0] == "show") return show(rest);
  if (arguments[0] == "check" && !rest.empty()) return check(rest);
  return fail(kFailed,
              arguments[0] == "check"
                  ? "rules check: no file given; usage: shunt rules check FILE..."
                  : "rules: '" + arguments[0] + "' is neither show nor check; see `shunt rules --help`");
}

SHUNT_VERB("rules", 65, "placement rules: show, check", rules_verb)

}  // namespace
}  // namespace shunt::tool
