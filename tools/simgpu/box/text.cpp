#include "tools/simgpu/box/text.h"

#include <cmath>
#include <cstdlib>

namespace simgpu {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    size_t at = text.find(separator);
    parts.push_back(trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<uint64_t> parse_count(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (text.empty() || text.size() > 32) return std::nullopt;
  for (char c : text)
    if ((c < '0' || c > '9') && c != '.') return std::nullopt;
  std::string copy(text);
  char* end = nullptr;
  double value = std::strtod(copy.c_str(), &end);
  if (*end != 0 || end == copy.c_str() || !std::isfinite(value)) return std::nullopt;
  return value;
}

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

std::optional<double> with_unit(std::string_view text, const Unit* units, size_t count) {
  size_t digits = text.find_first_not_of("0123456789.");
  std::optional<double> value = parse_number(text.substr(0, digits));
  if (!value) return std::nullopt;
  std::string_view unit = digits == std::string_view::npos ? "" : trim(text.substr(digits));
  for (size_t i = 0; i < count; ++i)
    if (units[i].name == unit) return *value * units[i].factor;
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  constexpr double kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;
  static constexpr Unit kUnits[] = {{"", 1},      {"B", 1},    {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi},
                                    {"TiB", kTi}, {"K", kKi},  {"M", kMi},   {"G", kGi},   {"T", kTi},
                                    {"kB", 1e3},  {"KB", 1e3}, {"MB", 1e6},  {"GB", 1e9},  {"TB", 1e12}};
  std::optional<double> value = with_unit(text, kUnits, std::size(kUnits));
  if (!value || *value >= 9.0e18) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

std::optional<double> parse_rate(std::string_view text) {
  static constexpr Unit kUnits[] = {{"B/s", 1}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
  return with_unit(text, kUnits, std::size(kUnits));
}

std::string quoted(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string out = "'";
  for (char c : text.substr(0, kLongest)) out += (c >= ' ' && c != 0x7f) ? c : '?';
  if (text.size() > kLongest) out += "...";
  return out + "'";
}

}  // namespace simgpu
