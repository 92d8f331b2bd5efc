// `shunt config`: every option, its value, and with --show-origin where it came from.
#include <stdio.h>

#include <nlohmann/json.hpp>

#include "runtime/config/hints.h"
#include "tools/shunt/console.h"
#include "tools/shunt/flags.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

int config_verb(const std::vector<std::string>& arguments) {
  const ParsedFlags flags = parse_flags(arguments, false, {"json", "show-origin"});
  if (!flags.error.empty()) return fail(kFailed, flags.error);
  if (flags.help) {
    printf(
        "Usage: shunt config [--show-origin] [--json] [options of shunt run]\n\n"
        "Prints the settings `shunt run` would use. Order: flag > environment > --config > ./shunt.toml > "
        "user file > default.\n\n"
        "Examples:\n  shunt config --show-origin\n  SHUNT_GRAPHS=off shunt config --json\n");
    return 0;
  }
  if (!flags.rest.empty())
    return fail(kFailed,
                "unexpected argument '" + flags.rest[0] + "'; usage: shunt config [--show-origin] [--json]");
  std::vector<config::Problem> problems;
  const config::Config config = resolve(flags, problems);
  config::parse_hints(config.list(config::OptionId::hint), problems);
  if (flags.json) {
    nlohmann::ordered_json j{{"schema", 1}};
    for (const config::OptionInfo& o : config::options()) {
      if (o.scope == config::Scope::internal) continue;
      const config::Setting& s = config.setting(o.id);
      j["settings"][std::string(o.name)] = {{"value", s.text},
                                            {"origin", config::origin_name(s.origin)},
                                            {"source", s.source},
                                            {"variable", o.env()}};
    }
    j["problems"] = nlohmann::ordered_json::array();
    for (const config::Problem& p : problems) j["problems"].push_back(p.line());
    printf("%s\n", j.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    std::vector<std::vector<std::string>> rows{{"option", "value"}};
    if (flags.show_origin) rows[0].insert(rows[0].end(), {"origin", "source"});
    for (const config::OptionInfo& o : config::options()) {
      if (o.scope == config::Scope::internal) continue;
      const config::Setting& s = config.setting(o.id);
      rows.push_back({std::string(o.name), s.text.empty() ? "-" : s.text});
      if (flags.show_origin)
        rows.back().insert(rows.back().end(),
                           {std::string(config::origin_name(s.origin)), s.source.empty() ? "" : s.source});
    }
    printf("%s", table(rows).c_str());
    for (const config::Problem& p : problems) warn(p.line());
  }
  return problems.empty() || !config.flag(config::OptionId::strict) ? 0 : kFailed;
}

SHUNT_VERB("config", 30, "the settings in force and where they come from", config_verb)

}  // namespace
}  // namespace shunt::tool
