// Resolved settings with their origin. Order: flag > environment > --config file > ./shunt.toml > XDG file >
// default; the tool reads files and flags and hands the result to the program's process as environment, so
// the runtime reads the environment only. Written during start-up by one thread, read-only afterwards.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/options.h"

namespace shunt::config {

enum class Origin : uint8_t { default_value, xdg_file, local_file, config_file, environment, flag };
std::string_view origin_name(Origin);

struct Setting {
  std::string text;  // normalised
  Origin origin = Origin::default_value;
  std::string source;  // "SHUNT_GRAPHS", "./shunt.toml", "--graphs"
};

class Config {
 public:
  Config();
  // Keeps the value of the stronger origin; a list option collects within one origin. False with `problem`
  // filled when the value is bad (the setting then keeps what it had).
  bool set(OptionId id, std::string_view value, Origin origin, std::string source, Problem& problem);

  const Setting& setting(OptionId id) const { return settings_[static_cast<size_t>(id)]; }
  const std::string& text(OptionId id) const { return setting(id).text; }
  bool is(OptionId id, std::string_view value) const { return setting(id).text == value; }
  bool flag(OptionId id) const { return setting(id).text == "1"; }
  bool given(OptionId id) const { return setting(id).origin != Origin::default_value; }
  uint64_t bytes(OptionId id) const { return parse_bytes(text(id)).value_or(0); }
  uint64_t duration_ns(OptionId id) const { return parse_duration(text(id)).value_or(0); }
  int64_t integer(OptionId id) const;
  std::vector<std::string> list(OptionId id) const { return split(text(id), ','); }

 private:
  std::array<Setting, kOptionCount> settings_;
};

// Reads every SHUNT_* variable of `environ`. Unknown names (with the nearest valid one) and bad values are
// appended to `problems`. SHUNT_* names of other tools: none are known; SIMGPU_* is simgpu's.
void load_environment(Config& config, const char* const* environ, std::vector<Problem>& problems);
// True when SHUNT_DISABLE is set to anything but a "no". Allocates nothing: the very first thing the runtime
// does.
bool disabled_by_environment(const char* value);
// The variables ("SHUNT_X=value") that hand every non-default runtime and internal setting to a child
// process.
std::vector<std::string> to_environment(const Config& config);

}  // namespace shunt::config
