#include "runtime/config/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace shunt::config {
namespace {
constexpr OptionInfo kOptions[] = {
#define SHUNT_OPTION(id, name, type, def, choices, scope, doc) \
  {OptionId::id, name, OptionType::type, def, choices, Scope::scope, doc},
#include "runtime/config/options.def"
#undef SHUNT_OPTION
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

struct Unit {
  std::string_view name;
  double factor;
};

std::optional<uint64_t> parse_scaled(std::string_view text, std::span<const Unit> units) {
  text = trim(text);
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.'))
    return std::nullopt;
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string unit = lower(trim(text.substr(static_cast<size_t>(end - text.data()))));
  for (const Unit& u : units) {
    if (unit != u.name) continue;
    const double value = number * u.factor;
    if (!(value < 18446744073709549568.0)) return std::nullopt;
    return static_cast<uint64_t>(std::llround(std::min(value, 9.2e18)) == static_cast<long long>(value)
                                     ? static_cast<uint64_t>(value)
                                     : static_cast<uint64_t>(value + 0.5));
  }
  return std::nullopt;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  // Damerau (adjacent swaps count one): typos are mostly swaps and single letters.
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); j++) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); i++)
    for (size_t j = 1; j <= b.size(); j++) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}
}  // namespace

std::string OptionInfo::env() const {
  std::string out = "SHUNT_";
  for (char c : name) out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::span<const OptionInfo> options() { return kOptions; }
const OptionInfo& info(OptionId id) { return kOptions[static_cast<size_t>(id)]; }

const OptionInfo* find_option(std::string_view name) {
  for (const OptionInfo& o : kOptions)
    if (o.name == name) return &o;
  return nullptr;
}

const OptionInfo* find_environment(std::string_view name) {
  for (const OptionInfo& o : kOptions)
    if (o.env() == name) return &o;
  return nullptr;
}

std::string Problem::line() const {
  std::string out = what + ": ";
  out += value.empty() ? "unknown option" : "bad value '" + value + "'";
  return fix.empty() ? out : out + "; " + fix;
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  constexpr double k = 1024;
  static constexpr Unit units[] = {{"", 1},
                                   {"b", 1},
                                   {"k", k},
                                   {"kib", k},
                                   {"kb", 1e3},
                                   {"m", k * k},
                                   {"mib", k * k},
                                   {"mb", 1e6},
                                   {"g", k * k * k},
                                   {"gib", k * k * k},
                                   {"gb", 1e9},
                                   {"t", k * k * k * k},
                                   {"tib", k * k * k * k},
                                   {"tb", 1e12}};
  return parse_scaled(text, units);
}

std::optional<uint64_t> parse_duration(std::string_view text) {
  static constexpr Unit units[] = {{"", 1e9}, {"s", 1e9},  {"ms", 1e6},   {"us", 1e3},
                                   {"ns", 1}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
  return parse_scaled(text, units);
}

std::optional<bool> parse_boolean(std::string_view text) {
  const std::string t = lower(trim(text));
  if (t == "1" || t == "on" || t == "true" || t == "yes") return true;
  if (t == "0" || t == "off" || t == "false" || t == "no" || t.empty()) return false;
  return std::nullopt;
}

std::string format_bytes(uint64_t bytes) {
  static constexpr const char* names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, unit++;
  char out[32];
  snprintf(out, sizeof out, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value, names[unit]);
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t at = std::min(text.find(separator), text.size());
    if (const auto item = trim(text.substr(0, at)); !item.empty()) out.emplace_back(item);
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return out;
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  const std::string wanted = lower(name);
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates)
    if (const size_t d = edit_distance(wanted, lower(candidate)); d < best_distance)
      best_distance = d, best = candidate;
  return best;
}

std::optional<std::string> normalise(const OptionInfo& option, std::string_view value, std::string& fix) {
  value = trim(value);
  switch (option.type) {
    case OptionType::boolean:
      if (const auto b = parse_boolean(value)) return *b ? "1" : "0";
      fix = "use 0 or 1";
      return std::nullopt;
    case OptionType::choice: {
      const std::vector<std::string> choices = split(option.choices, '|');
      const std::string wanted = lower(value);
      if (std::find(choices.begin(), choices.end(), wanted) != choices.end()) return wanted;
      // "1" and "0" are what people write for on/off switches.
      if (const auto b = parse_boolean(value); b && !value.empty())
        for (const std::string& c : choices)
          if (c == (*b ? "on" : "off")) return c;
      const std::string near = nearest(value, choices);
      fix = "use one of " + std::string(option.choices) +
            (near.empty() ? "" : " (did you mean '" + near + "'?)");
      return std::nullopt;
    }
    case OptionType::bytes:
      if (parse_bytes(value)) return std::string(value);
      fix = "use a size such as 64MiB, 1.5GiB or 4096";
      return std::nullopt;
    case OptionType::integer: {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error == std::errc() && end == value.data() + value.size() && !value.empty())
        return std::string(value);
      fix = "use a whole number";
      return std::nullopt;
    }
    case OptionType::duration:
      if (parse_duration(value)) return std::string(value);
      fix = "use a time such as 50us, 200ms or 2s";
      return std::nullopt;
    case OptionType::text:
    case OptionType::list:
      return std::string(value);
  }
  return std::nullopt;
}

}  // namespace shunt::config
