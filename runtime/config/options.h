// The table of options (options.def) as data. Constant; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shunt::config {

enum class OptionId : uint16_t {
#define SHUNT_OPTION(id, name, type, def, choices, scope, doc) id,
#include "runtime/config/options.def"
#undef SHUNT_OPTION
  count
};
inline constexpr size_t kOptionCount = static_cast<size_t>(OptionId::count);

enum class OptionType : uint8_t { boolean, choice, text, bytes, integer, duration, list };
enum class Scope : uint8_t { runtime, tool, internal };

struct OptionInfo {
  OptionId id;
  std::string_view name;  // "trace-max"
  OptionType type;
  std::string_view default_value;
  std::string_view choices;  // "off|on", choice only
  Scope scope;
  std::string_view doc;
  std::string env() const;  // "SHUNT_TRACE_MAX"
};

std::span<const OptionInfo> options();
const OptionInfo& info(OptionId id);
const OptionInfo* find_option(std::string_view name);       // "trace-max"
const OptionInfo* find_environment(std::string_view name);  // "SHUNT_TRACE_MAX"

// Something wrong with an option: what ("SHUNT_PLACMENT"), value, fix ("did you mean SHUNT_PLACEMENT?").
struct Problem {
  std::string what, value, fix;
  std::string line() const;  // "SHUNT_PLACMENT: unknown option; did you mean SHUNT_PLACEMENT?"
};

// Checks and normalises a value ("yes" -> "1", "64 GB" stays). nullopt with `fix` set when it is bad.
std::optional<std::string> normalise(const OptionInfo& option, std::string_view value, std::string& fix);

// "64GiB", "64G" (both 2^30), "64GB" (10^9), "4096", "1.5GiB". nullopt: malformed or overflowing.
std::optional<uint64_t> parse_bytes(std::string_view text);
// "50us", "1.5s", "200ms", "10ns", "2m"; a bare number is seconds. Nanoseconds.
std::optional<uint64_t> parse_duration(std::string_view text);
std::optional<bool> parse_boolean(std::string_view text);
std::string format_bytes(uint64_t bytes);  // "64.0 GiB"
std::vector<std::string> split(std::string_view text, char separator);

// Closest candidate by edit distance, empty when nothing is near (more than a third of the letters differ).
std::string nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace shunt::config
