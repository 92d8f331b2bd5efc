#include "tools/shunt/rules/rules_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/base/toml.h"

namespace shunt::tool {
namespace {

using placement::Prefer;
using placement::Rule;
using placement::RuleSet;

constexpr size_t kMaxBytes = 1 << 20;

const std::vector<std::string> kTopKeys = {"schema", "margin", "rule"};
const std::vector<std::string> kRuleKeys = {
    "name",          "enabled",         "need-above",  "need-at-most",  "need-above-free",
    "context-above", "context-at-most", "batch-above", "batch-at-most", "role",
    "prefer"};

std::optional<uint64_t> count_of(const toml::node& node) {
  if (const auto* i = node.as_integer())
    return i->get() >= 0 ? std::optional(static_cast<uint64_t>(i->get())) : std::nullopt;
  const auto* s = node.as_string();
  if (!s) return std::nullopt;
  const std::string& text = s->get();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const uint64_t factor = unit == "K" || unit == "k" ? 1024 : unit == "M" || unit == "m" ? 1 << 20 : 1;
  if (error != std::errc() || (factor == 1 && !unit.empty()) || value > UINT64_MAX / factor)
    return std::nullopt;
  return value * factor;
}

std::optional<uint64_t> size_of(const toml::node& node) {
  if (const auto* i = node.as_integer())
    return i->get() >= 0 ? std::optional(static_cast<uint64_t>(i->get())) : std::nullopt;
  const auto* s = node.as_string();
  return s ? config::parse_bytes(s->get()) : std::nullopt;
}

// "8 %", "8%"
std::optional<double> percent_of(const toml::node& node) {
  const auto* s = node.as_string();
  if (!s) return std::nullopt;
  const std::string& text = s->get();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (!rest.empty() && rest[0] == ' ') rest.erase(0, 1);
  if (error != std::errc() || rest != "%" || !(value >= 0 && value <= 1000)) return std::nullopt;
  return value;
}

class Reader {
 public:
  Reader(const std::string& name, std::vector<std::string>& errors) : name_(name), errors_(errors) {}

  void read(const toml::table& table, RuleSet& out) {
    check_keys(table, kTopKeys, "key");
    if (const toml::node* schema = table.get("schema")) {
      const auto* i = schema->as_integer();
      if (!i || i->get() != 1) error(*schema, "schema must be 1, the format this shunt reads");
    } else {
      error(table, "schema is missing; write schema = 1");
    }
    if (const toml::node* margin = table.get("margin")) {
      if (const auto value = percent_of(*margin))
        out.margin_pct = *value;
      else
        error(*margin, "margin is a per cent text such as \"8 %\"");
    }
    const toml::node* rules = table.get("rule");
    if (!rules) return;
    const toml::array* array = rules->as_array();
    if (!array) return error(*rules, "rules are written as [[rule]]");
    for (const toml::node& node : *array) {
      if (const toml::table* rule = node.as_table())
        read_rule(*rule, out);
      else
        error(node, "rules are written as [[rule]]");
    }
  }

 private:
  void error(const toml::node& at, const std::string& what) {
    errors_.push_back(name_ + ":" + std::to_string(at.source().begin.line) + ": " + what);
  }

  void check_keys(const toml::table& table, const std::vector<std::string>& known, const char* kind) {
    for (const auto& [key, node] : table) {
      const std::string text(key.str());
      if (std::find(known.begin(), known.end(), text) != known.end()) continue;
      const std::string near = config::nearest(text, known);
      errors_.push_back(
          name_ + ":" + std::to_string(key.source().begin.line) + ": unknown " + kind + " '" + text + "'" +
          (near.empty() ? "; `shunt rules show --default` explains all" : "; did you mean " + near + "?"));
    }
  }

  template <typename T, typename Parse>
  void value(const toml::table& table, const char* key, Parse parse, const char* fix, std::optional<T>& out) {
    const toml::node* node = table.get(key);
    if (!node) return;
    out = parse(*node);
    if (!out) error(*node, std::string(key) + ": " + fix);
  }

  void read_rule(const toml::table& table, RuleSet& set) {
    check_keys(table, kRuleKeys, "condition or key");
    Rule rule;
    const size_t before = errors_.size();
    rule.name = table["name"].value_or(std::string());
    const char* kSize = "use a size such as \"80GB\"";
    const char* kCount = "use a number such as 65536 or \"64K\"";
    value(table, "need-above", size_of, kSize, rule.need_above);
    value(table, "need-at-most", size_of, kSize, rule.need_at_most);
    value(table, "need-above-free", percent_of, "use a per cent text such as \"92 %\"",
          rule.need_above_free_pct);
    value(table, "context-above", count_of, kCount, rule.context_above);
    value(table, "context-at-most", count_of, kCount, rule.context_at_most);
    value(table, "batch-above", count_of, kCount, rule.batch_above);
    value(table, "batch-at-most", count_of, kCount, rule.batch_at_most);
    if (const toml::node* role = table.get("role")) {
      if (const auto* text = role->as_string())
        rule.roles = {text->get()};
      else if (const toml::array* list = role->as_array())
        for (const toml::node& item : *list) {
          if (const auto* text = item.as_string())
            rule.roles.push_back(text->get());
          else
            error(item, "role: use train, infer, augment or forward");
        }
      else
        error(*role, "role: use train, infer, augment or forward, or a list of them");
    }
    read_prefer(table, rule);
    const toml::node* enabled = table.get("enabled");
    if (enabled && !enabled->as_boolean()) error(*enabled, "enabled: use true or false");
    if (errors_.size() == before)
      if (const std::string wrong = check_rule(rule); !wrong.empty()) error(table, wrong);
    if (!names_.insert(rule.name).second) error(table, "rule '" + rule.name + "' is there twice");
    if (enabled && enabled->as_boolean() && !enabled->as_boolean()->get()) return;
    set.rules.push_back(std::move(rule));
    if (set.rules.size() == 65) error(table, "more than 64 rules");
  }

  void read_prefer(const toml::table& table, Rule& rule) {
    const toml::node* node = table.get("prefer");
    const auto* text = node ? node->as_string() : nullptr;
    constexpr const char* kFix =
        "use most-memory, least-memory, most-free, fastest, least-energy or model:KEY";
    if (!text)
      return error(node ? *node : static_cast<const toml::node&>(table), std::string("prefer: ") + kFix);
    std::string value = text->get();
    if (value.starts_with("model:")) {
      rule.prefer = Prefer::model;
      rule.model = value.substr(6);
      return;
    }
    const auto prefer = placement::parse_prefer(value);
    if (!prefer || *prefer == Prefer::model) return error(*node, "prefer '" + value + "': " + kFix);
    rule.prefer = *prefer;
  }

  const std::string& name_;
  std::vector<std::string>& errors_;
  std::set<std::string> names_;
};

}  // namespace

bool read_rules_text(const std::string& text, const std::string& name, RuleSet& rules,
                     std::vector<std::string>& errors) {
  const size_t before = errors.size();
  RuleSet read;
  const toml::parse_result parsed = toml::parse(text, name);
  if (parsed)
    Reader(name, errors).read(parsed.table(), read);
  else
    errors.push_back(name + ":" + std::to_string(parsed.error().source().begin.line) + ": " +
                     std::string(parsed.error().description()));
  if (errors.size() != before) return false;
  rules = std::move(read);
  return true;
}

bool read_rules_file(const std::string& path, RuleSet& rules, std::vector<std::string>& errors) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    errors.push_back("rules '" + path + "': " + strerror(errno));
    return false;
  }
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || text.size() > kMaxBytes) {
    errors.push_back("rules '" + path + "': " + (file.bad() ? "cannot be read" : "larger than 1 MiB"));
    return false;
  }
  return read_rules_text(text, path, rules, errors);
}

bool rules_in_effect(const std::string& option, RuleSet& rules, std::string& origin,
                     std::vector<std::string>& errors) {
  std::string path = option;
  if (path.empty()) {
    const char* xdg = getenv("XDG_CONFIG_HOME");
    const char* home = getenv("HOME");
    const std::string folder = xdg && *xdg ? xdg : home && *home ? std::string(home) + "/.config" : "";
    const std::string candidate = folder + "/shunt/rules.toml";
    if (!folder.empty() && access(candidate.c_str(), F_OK) == 0) path = candidate;
  }
  if (path.empty()) {
    origin = "shipped with shunt";
    rules = placement::default_rules();
    return true;
  }
  origin = path;
  return read_rules_file(path, rules, errors);
}

}  // namespace shunt::tool
