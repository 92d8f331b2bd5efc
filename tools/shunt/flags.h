// Command-line flags made from options.def, and the resolution of settings: flag > environment > --config
// file > ./shunt.toml > $XDG_CONFIG_HOME/shunt/shunt.toml > default. One thread.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/config.h"

namespace shunt::tool {

struct ParsedFlags {
  std::vector<std::pair<config::OptionId, std::string>> values;  // in order
  std::string config_file;                                       // --config
  bool json = false, help = false, show_origin = false;          // for verbs that take them
  std::vector<std::string> rest;  // positionals, or the program and its arguments
  std::string error;              // one line: what, value, fix
};

// Parses options up to the first positional (run: everything from there, or from "--", is the program's).
// With `mix` false options after positionals are the verb's own too.
ParsedFlags parse_flags(const std::vector<std::string>& arguments, bool program_follows,
                        const std::vector<std::string>& extra_switches = {});

// Files, environment, then flags. Bad values end up in `problems`; with strict they are errors.
config::Config resolve(const ParsedFlags& flags, std::vector<config::Problem>& problems);

// Text of all flags for --help.
std::string flags_help();

}  // namespace shunt::tool
