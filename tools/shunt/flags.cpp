#include "tools/shunt/flags.h"

#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "tools/shunt/toml_settings.h"

namespace shunt::tool {
namespace {

using config::OptionId;
using config::OptionInfo;
using config::OptionType;
using config::Scope;

std::string short_flag(OptionId id) {
  switch (id) {
    case OptionId::trace:
      return "-o,--output,";
    case OptionId::quiet:
      return "-q,";
    case OptionId::force:
      return "-f,";
    default:
      return "";
  }
}

void add_options(CLI::App& app, ParsedFlags& out) {
  for (const OptionInfo& o : config::options()) {
    if (o.scope == Scope::internal) continue;
    const OptionId id = o.id;
    const std::string names = short_flag(id) + "--" + std::string(o.name);
    if (o.type == OptionType::boolean) {
      app.add_flag_function(
          names + ",!--no-" + std::string(o.name),
          [&out, id](std::int64_t n) { out.values.emplace_back(id, n > 0 ? "1" : "0"); }, std::string(o.doc));
    } else {
      app.add_option_function<std::vector<std::string>>(
             names,
             [&out, id](const std::vector<std::string>& all) {
               for (const std::string& v : all) out.values.emplace_back(id, v);
             },
             std::string(o.doc))
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->expected(1)
          ->type_name(o.type == OptionType::choice  ? "{" + std::string(o.choices) + "}"
                      : o.type == OptionType::bytes ? "SIZE"
                                                    : "TEXT");
    }
  }
  app.add_option("--config", out.config_file,
                 "Settings file (TOML), read after ./shunt.toml and before the environment.")
      ->type_name("FILE");
}

// "--trace-mx=4" is unknown; what was meant?
std::string unknown_option(const std::string& argument, const std::vector<std::string>& known) {
  const std::string name = argument.substr(0, argument.find('='));
  const std::string near = config::nearest(name, known);
  return "unknown option '" + name + "'" +
         (near.empty() ? "; `shunt run --help` lists the options" : "; did you mean " + near + "?");
}

bool looks_like_option(const std::string& a) { return a.size() > 1 && a[0] == '-'; }

}  // namespace

ParsedFlags parse_flags(const std::vector<std::string>& arguments, bool program_follows,
                        const std::vector<std::string>& extra_switches) {
  ParsedFlags out;
  CLI::App app;
  app.set_help_flag();
  add_options(app, out);
  app.add_flag("-h,--help", out.help);
  std::vector<std::string> seen_switches;
  for (const std::string& name : extra_switches)
    app.add_flag_function(
        "--" + name, [&out, name](std::int64_t) { (name == "json" ? out.json : out.show_origin) = true; });

  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& n : option->get_lnames()) known.push_back("--" + n);
    for (const std::string& n : option->get_snames()) known.push_back("-" + n);
  }
  // The program begins at "--" or at the first argument that is neither an option nor an option's value.
  std::vector<std::string> own;
  size_t i = 0;
  for (; i < arguments.size(); i++) {
    const std::string& a = arguments[i];
    if (a == "--") {
      i++;
      break;
    }
    if (!looks_like_option(a)) {
      if (program_follows) break;
      out.rest.push_back(a);
      continue;
    }
    const bool has_value = a.find('=') != std::string::npos;
    const std::string name = a.substr(0, a.find('='));
    const CLI::Option* option = app.get_option_no_throw(name);
    if (!option && a[1] != '-' && a.size() > 2) option = app.get_option_no_throw(a.substr(0, 2));  // -oNAME
    const bool negated = name.rfind("--no-", 0) == 0 && app.get_option_no_throw("--" + name.substr(5));
    if (!option && !negated) {
      out.error = unknown_option(a, known);
      return out;
    }
    own.push_back(a);
    const bool takes_value = option && option->get_expected_min() > 0;
    if (takes_value && !has_value && (a[1] == '-' || a.size() == 2)) {
      if (i + 1 >= arguments.size() || arguments[i + 1] == "--") {
        out.error = "option " + a + " needs a value";
        return out;
      }
      own.back() =
          a + (a[1] == '-' ? "=" : "") + arguments[++i];  // joined, so that a value may begin with a dash
    }
  }
  out.rest.insert(out.rest.end(),
                  arguments.begin() + static_cast<std::ptrdiff_t>(std::min(i, arguments.size())),
                  arguments.end());
  try {
    std::reverse(own.begin(), own.end());  // CLI11 pops from the back
    app.parse(own);
  } catch (const CLI::ParseError& error) {
    out.error = error.what();
  }
  return out;
}

config::Config resolve(const ParsedFlags& flags, std::vector<config::Problem>& problems) {
  config::Config config;
  const char* xdg = getenv("XDG_CONFIG_HOME");
  const char* home = getenv("HOME");
  std::string user = xdg && *xdg ? xdg : home && *home ? std::string(home) + "/.config" : "";
  if (!user.empty()) load_toml(user + "/shunt/shunt.toml", config::Origin::xdg_file, config, problems);
  load_toml("./shunt.toml", config::Origin::local_file, config, problems);
  if (!flags.config_file.empty() &&
      !load_toml(flags.config_file, config::Origin::config_file, config, problems))
    problems.push_back({"--config", flags.config_file, "no such file"});
  config::load_environment(config, environ, problems);
  for (const auto& [id, value] : flags.values) {
    config::Problem problem;
    if (!config.set(id, value, config::Origin::flag, "--" + std::string(config::info(id).name), problem))
      problems.push_back(problem);
  }
  return config;
}

std::string flags_help() {
  std::string out;
  for (const OptionInfo& o : config::options()) {
    if (o.scope == Scope::internal) continue;
    std::string left = "  ";
    if (o.id == OptionId::trace) left += "-o, ";
    if (o.id == OptionId::quiet) left += "-q, ";
    if (o.id == OptionId::force) left += "-f, ";
    left += "--" + std::string(o.name);
    if (o.type == OptionType::choice)
      left += " " + std::string(o.choices);
    else if (o.type == OptionType::bytes)
      left += " SIZE";
    else if (o.type != OptionType::boolean)
      left += " TEXT";
    out += left + "\n      " + std::string(o.doc);
    if (!o.default_value.empty() && o.type != OptionType::boolean)
      out += " Default: " + std::string(o.default_value) + ".";
    out += "\n";
  }
  return out;
}

}  // namespace shunt::tool
