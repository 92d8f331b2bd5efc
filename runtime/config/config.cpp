#include "runtime/config/config.h"

#include <charconv>

namespace shunt::config {

std::string_view origin_name(Origin origin) {
  static constexpr std::string_view names[] = {"default",  "user file",   "./shunt.toml",
                                               "--config", "environment", "flag"};
  return names[static_cast<size_t>(origin)];
}

Config::Config() {
  for (const OptionInfo& o : options()) settings_[static_cast<size_t>(o.id)].text = o.default_value;
}

bool Config::set(OptionId id, std::string_view value, Origin origin, std::string source, Problem& problem) {
  Setting& setting = settings_[static_cast<size_t>(id)];
  std::string fix;
  const auto normal = normalise(info(id), value, fix);
  if (!normal) {
    problem = {source, std::string(value.empty() ? std::string_view("(empty)") : value), fix};
    return false;
  }
  if (origin < setting.origin) return true;
  const bool append = info(id).type == OptionType::list && origin == setting.origin && !setting.text.empty();
  setting.text = append ? setting.text + "," + *normal : *normal;
  setting.origin = origin;
  setting.source = std::move(source);
  return true;
}

int64_t Config::integer(OptionId id) const {
  int64_t number = 0;
  const std::string& t = text(id);
  std::from_chars(t.data(), t.data() + t.size(), number);
  return number;
}

}  // namespace shunt::config
