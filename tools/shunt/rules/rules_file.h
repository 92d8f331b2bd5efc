// The placement rules people edit (TOML): reader, and which file is in effect. The format is explained in
// runtime/placement/default_rules.toml. One thread; reports instead of throwing.
#pragma once
#include <string>
#include <vector>

#include "runtime/placement/rules.h"

namespace shunt::tool {

// Errors are "NAME:LINE: what; fix", all of them, not only the first. `rules` is changed only without errors.
bool read_rules_text(const std::string& text, const std::string& name, placement::RuleSet& rules,
                     std::vector<std::string>& errors);
bool read_rules_file(const std::string& path, placement::RuleSet& rules, std::vector<std::string>& errors);

// The rules in effect: `option` (--rules) if given, else $XDG_CONFIG_HOME/shunt/rules.toml if it exists, else
// those shipped. `origin` names where they came from.
bool rules_in_effect(const std::string& option, placement::RuleSet& rules, std::string& origin,
                     std::vector<std::string>& errors);

}  // namespace shunt::tool
