#include "runtime/exec/settings.h"

#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/config/hints.h"

namespace shunt::exec {
namespace {
config::Config* g_config = nullptr;
}

const config::Config& settings() {
  static const config::Config* fallback = new config::Config();
  return g_config ? *g_config : *fallback;
}

void load_settings() {
  if (g_config) return;
  auto* config = new config::Config();
  std::vector<config::Problem> problems;
  config::load_environment(*config, environ, problems);
  std::vector<config::Problem> hint_problems;
  config::parse_hints(config->list(config::OptionId::hint), hint_problems);
  problems.insert(problems.end(), hint_problems.begin(), hint_problems.end());
  g_config = config;
  log::Level level = log::Level::warn;
  log::parse_level(config->text(config::OptionId::log), level);
  const std::string& file = config->text(config::OptionId::log_file);
  if (!log::init(level, config->text(config::OptionId::log_subsys), file))
    SHUNT_LOG_WARN(config, "SHUNT_LOG_FILE: cannot open '%s'; logging to stderr", file.c_str());
  // `shunt run` has checked and reported them already.
  if (config->given(config::OptionId::run_id)) return;
  for (const config::Problem& p : problems) SHUNT_LOG_WARN(config, "%s", p.line().c_str());
  std::string_view unknown;
  log::parse_subsystems(config->text(config::OptionId::log_subsys), unknown);
  if (!unknown.empty())
    SHUNT_LOG_WARN(config, "SHUNT_LOG_SUBSYS: unknown subsystem '%.*s'", static_cast<int>(unknown.size()),
                   unknown.data());
}

}  // namespace shunt::exec
