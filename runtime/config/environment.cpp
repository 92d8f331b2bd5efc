#include <cstring>

#include "runtime/config/config.h"

namespace shunt::config {
namespace {
constexpr std::string_view kPrefix = "SHUNT_";
}

bool disabled_by_environment(const char* value) {
  if (!value || !*value) return false;
  return strcmp(value, "0") != 0 && strcasecmp(value, "off") != 0 && strcasecmp(value, "no") != 0 &&
         strcasecmp(value, "false") != 0;
}

void load_environment(Config& config, const char* const* environ, std::vector<Problem>& problems) {
  if (!environ) return;
  for (; *environ; environ++) {
    const std::string_view entry(*environ);
    if (!entry.starts_with(kPrefix)) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(entry.substr(0, equals));
    const std::string_view value = entry.substr(equals + 1);
    if (const OptionInfo* option = find_environment(name)) {
      // An empty variable is how scripts say "unset"; the off-switch alone reads any other word as yes.
      if (value.empty()) continue;
      Problem problem;
      if (option->id == OptionId::disable) {
        config.set(option->id, disabled_by_environment(std::string(value).c_str()) ? "1" : "0",
                   Origin::environment, name, problem);
      } else if (!config.set(option->id, value, Origin::environment, name, problem)) {
        problems.push_back(std::move(problem));
      }
      continue;
    }
    std::vector<std::string> names;
    for (const OptionInfo& o : options())
      if (o.scope != Scope::internal) names.push_back(o.env());
    const std::string near = nearest(name, names);
    problems.push_back({name, "", near.empty() ? "see `shunt help env`" : "did you mean " + near + "?"});
  }
}

std::vector<std::string> to_environment(const Config& config) {
  std::vector<std::string> out;
  for (const OptionInfo& o : options())
    if (o.scope != Scope::tool && config.given(o.id)) out.push_back(o.env() + "=" + config.text(o.id));
  return out;
}

}  // namespace shunt::config
