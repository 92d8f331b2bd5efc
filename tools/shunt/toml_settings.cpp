#include "tools/shunt/toml_settings.h"

#include <sys/stat.h>

#include <sstream>

#include "runtime/base/toml.h"

namespace shunt::tool {
namespace {

std::string text_of(const toml::node& node) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* b = node.as_boolean()) return b->get() ? "1" : "0";
  if (const auto* i = node.as_integer()) return std::to_string(i->get());
  std::ostringstream out;
  if (const auto* f = node.as_floating_point()) out << f->get();
  return out.str();
}

struct Loader {
  const std::string& path;
  config::Origin origin;
  config::Config& config;
  std::vector<config::Problem>& problems;

  void set(const std::string& key, const toml::node& node) {
    const config::OptionInfo* option = config::find_option(key);
    const std::string source = path + ": " + key;
    if (!option || option->scope == config::Scope::internal) {
      std::vector<std::string> names;
      for (const config::OptionInfo& o : config::options())
        if (o.scope != config::Scope::internal) names.emplace_back(o.name);
      const std::string near = config::nearest(key, names);
      problems.push_back(
          {source, "", near.empty() ? "`shunt config` lists the options" : "did you mean " + near + "?"});
      return;
    }
    config::Problem problem;
    if (const auto* array = node.as_array()) {
      for (const toml::node& item : *array)
        if (!config.set(option->id, text_of(item), origin, source, problem)) problems.push_back(problem);
      return;
    }
    if (!config.set(option->id, text_of(node), origin, source, problem)) problems.push_back(problem);
  }

  void walk(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      const toml::table* inner = node.as_table();
      if (inner && name == "hint") {
        for (const auto& [hint, value] : *inner) {
          config::Problem problem;
          if (!config.set(config::OptionId::hint, std::string(hint.str()) + "=" + text_of(value), origin,
                          path + ": hint", problem))
            problems.push_back(problem);
        }
      } else if (inner) {
        walk(*inner, name + "-");
      } else {
        set(name, node);
      }
    }
  }
};

}  // namespace

bool load_toml(const std::string& path, config::Origin origin, config::Config& config,
               std::vector<config::Problem>& problems) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return false;
  const toml::parse_result parsed = toml::parse_file(path);
  if (parsed)
    Loader{path, origin, config, problems}.walk(parsed.table(), "");
  else
    problems.push_back({path + ":" + std::to_string(parsed.error().source().begin.line),
                        std::string(parsed.error().description()), "the file is ignored"});
  return true;
}

}  // namespace shunt::tool
