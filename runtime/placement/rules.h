// Placement rules: what hints say about the model a program should run on. Plain data and pure functions; any
// thread. The file people edit is TOML, read by tools/shunt/rules_file.h; the program's process gets the
// compact text (SHUNT_RULE_SET), because the runtime reads no files. The rules shipped are
// default_rules.toml, compiled in by scripts/gen_rules.py.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/hints.h"

namespace shunt::placement {

enum class Prefer : uint8_t { most_memory, least_memory, most_free, fastest, least_energy, model };
std::string_view prefer_name(Prefer);
std::optional<Prefer> parse_prefer(std::string_view text);  // without "model:KEY"

struct Rule {
  std::string name;  // [a-z0-9-], 32 at most
  // Conditions; all given ones must hold. One on a hint that was not given does not hold.
  std::optional<uint64_t> need_above, need_at_most, context_above, context_at_most, batch_above,
      batch_at_most;
  std::optional<double> need_above_free_pct;  // of the largest free memory on the default model
  std::vector<std::string> roles;             // any of
  Prefer prefer = Prefer::most_memory;
  std::string model;  // Prefer::model: profile key

  bool holds(const config::Hints& hints, uint64_t need_bytes, std::optional<uint64_t> free_bytes) const;
  std::string conditions() const;  // "context > 65536, role train": for tables
};

struct RuleSet {
  double margin_pct = 8;  // free memory must be need + margin
  std::vector<Rule> rules;
};

const RuleSet& default_rules();
std::string_view default_rules_text();  // default_rules.toml as shipped

// "1|margin=8|long-context:context>65536:most-memory|..." Both directions are exact.
std::string to_compact(const RuleSet& set);
bool parse_compact(std::string_view text, RuleSet& set, std::string& error);

// Why a name, role or figure is not acceptable; empty: fine. Shared by both readers.
std::string check_rule(const Rule& rule);

}  // namespace shunt::placement
