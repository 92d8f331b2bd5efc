#include "runtime/placement/rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "runtime/profiles/profile.h"

namespace shunt::placement {
namespace {

#include "runtime/placement/generated/default_rules.inc"

constexpr std::array<std::string_view, 6> kPrefer = {"most-memory", "least-memory", "most-free",
                                                     "fastest",     "least-energy", "model"};
constexpr size_t kMaxRules = 64;

template <typename T>
bool number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

std::string decimal(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// The numeric conditions, once: name in the compact text, words for people, member.
struct Bound {
  std::string_view name, words;
  std::optional<uint64_t> Rule::*member;
  bool above;
};
constexpr Bound kBounds[] = {
    {"need>", "need > ", &Rule::need_above, true},
    {"need<=", "need <= ", &Rule::need_at_most, false},
    {"context>", "context > ", &Rule::context_above, true},
    {"context<=", "context <= ", &Rule::context_at_most, false},
    {"batch>", "batch > ", &Rule::batch_above, true},
    {"batch<=", "batch <= ", &Rule::batch_at_most, false},
};
constexpr std::string_view kFree = "needfree>", kRole = "role=";

bool parse_part(std::string_view part, Rule& rule) {
  if (part.starts_with(kFree)) return number(part.substr(kFree.size()), rule.need_above_free_pct.emplace());
  if (part.starts_with(kRole)) {
    rule.roles = config::split(part.substr(kRole.size()), '+');
    return !rule.roles.empty();
  }
  for (const Bound& b : kBounds)
    if (part.starts_with(b.name)) return number(part.substr(b.name.size()), (rule.*b.member).emplace());
  return false;
}

bool parse_rule(std::string_view text, Rule& rule, std::string& error) {
  const std::vector<std::string> parts = config::split(text, ':');
  const bool names_model = parts.size() >= 3 && parts[parts.size() - 2] == "model";
  const size_t tail = names_model ? 2 : 1;
  if (parts.size() < tail + 1) {
    error = "rule '" + std::string(text) + "': use NAME:CONDITION...:PREFERENCE";
    return false;
  }
  rule.name = parts[0];
  for (size_t i = 1; i + tail < parts.size(); i++)
    if (!parse_part(parts[i], rule)) {
      error = "rule '" + rule.name + "': '" + parts[i] + "' is no condition";
      return false;
    }
  const auto prefer = parse_prefer(parts[parts.size() - tail]);
  if (!prefer || (*prefer == Prefer::model) != names_model) {
    error = "rule '" + rule.name + "': '" + parts.back() + "' is no preference";
    return false;
  }
  rule.prefer = *prefer;
  if (names_model) rule.model = parts.back();
  error = check_rule(rule);
  return error.empty();
}

}  // namespace

std::string_view prefer_name(Prefer p) { return kPrefer[static_cast<size_t>(p)]; }

std::optional<Prefer> parse_prefer(std::string_view text) {
  for (size_t i = 0; i < kPrefer.size(); i++)
    if (kPrefer[i] == text) return static_cast<Prefer>(i);
  return std::nullopt;
}

bool Rule::holds(const config::Hints& h, uint64_t need, std::optional<uint64_t> free) const {
  const uint64_t given[] = {need, need, h.context_tokens, h.context_tokens, h.batch, h.batch};
  bool any = false;
  for (size_t i = 0; i < std::size(kBounds); i++) {
    const auto& bound = this->*kBounds[i].member;
    if (!bound) continue;
    any = true;
    if (given[i] == 0 || (given[i] > *bound) != kBounds[i].above) return false;
  }
  if (need_above_free_pct) {
    any = true;
    if (need == 0 || !free ||
        static_cast<double>(need) <= static_cast<double>(*free) * *need_above_free_pct / 100)
      return false;
  }
  if (!roles.empty()) {
    any = true;
    if (std::find(roles.begin(), roles.end(), h.role) == roles.end()) return false;
  }
  return any;
}

std::string Rule::conditions() const {
  std::string out;
  auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (const Bound& b : kBounds)
    if (const auto& bound = this->*b.member)
      add(std::string(b.words) +
          (b.name.starts_with("need") ? config::format_bytes(*bound) : std::to_string(*bound)));
  if (need_above_free_pct) add("need > " + decimal(*need_above_free_pct) + " % of free");
  std::string any;
  for (const std::string& role : roles) any += (any.empty() ? "role " : " or ") + role;
  if (!any.empty()) add(any);
  return out;
}

std::string check_rule(const Rule& rule) {
  const bool name_ok =
      !rule.name.empty() && rule.name.size() <= 32 &&
      rule.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!name_ok)
    return "rule '" + rule.name.substr(0, 40) + "': a name is 1 to 32 of the characters a-z 0-9 -";
  for (const std::string& role : rule.roles)
    if (role != "train" && role != "infer" && role != "augment" && role != "forward")
      return "rule '" + rule.name + "': role '" + role + "'; use train, infer, augment or forward";
  if (rule.need_above_free_pct && !(*rule.need_above_free_pct >= 0 && *rule.need_above_free_pct <= 1000))
    return "rule '" + rule.name + "': need-above-free is 0 % to 1000 %";
  if (rule.conditions().empty())
    return "rule '" + rule.name +
           "': no condition; it would decide for every program (use --placement=mixed)";
  if (rule.prefer == Prefer::model && !profiles::find(rule.model)) {
    const profiles::Profile* near = profiles::nearest(rule.model);
    return "rule '" + rule.name + "': no model '" + rule.model + "'" +
           (near ? "; did you mean model:" + std::string(near->key) + "?"
                 : "; `shunt help models` lists them");
  }
  return "";
}

std::string to_compact(const RuleSet& set) {
  std::string out = "1|margin=" + decimal(set.margin_pct);
  for (const Rule& rule : set.rules) {
    out += "|" + rule.name;
    for (const Bound& b : kBounds)
      if (const auto& bound = rule.*b.member) out += ":" + std::string(b.name) + std::to_string(*bound);
    if (rule.need_above_free_pct) out += ":" + std::string(kFree) + decimal(*rule.need_above_free_pct);
    for (size_t i = 0; i < rule.roles.size(); i++) out += (i ? "+" : ":role=") + rule.roles[i];
    out += ":" + std::string(prefer_name(rule.prefer));
    if (rule.prefer == Prefer::model) out += ":" + rule.model;
  }
  return out;
}

bool parse_compact(std::string_view text, RuleSet& set, std::string& error) {
  RuleSet read;
  const std::vector<std::string> fields = config::split(text, '|');
  if (fields.size() < 2 || fields[0] != "1" || !fields[1].starts_with("margin=") ||
      !number(std::string_view(fields[1]).substr(7), read.margin_pct) ||
      !(read.margin_pct >= 0 && read.margin_pct <= 1000)) {
    error = "the rules do not start with 1|margin=PERCENT";
    return false;
  }
  if (fields.size() - 2 > kMaxRules) {
    error = "more than " + std::to_string(kMaxRules) + " rules";
    return false;
  }
  for (size_t i = 2; i < fields.size(); i++)
    if (!parse_rule(fields[i], read.rules.emplace_back(), error)) return false;
  set = std::move(read);
  return true;
}

const RuleSet& default_rules() {
  // Leaked on purpose: no static destructor may run before the program's last CUDA call.
  static const RuleSet* const rules = [] {
    auto* set = new RuleSet();
    std::string error;
    parse_compact(kDefaultRulesCompact, *set, error);  // a test holds both to be the same
    return set;
  }();
  return *rules;
}

std::string_view default_rules_text() { return kDefaultRulesText; }

}  // namespace shunt::placement
