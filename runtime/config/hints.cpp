#include "runtime/config/hints.h"

#include <charconv>

namespace shunt::config {
namespace {

// "65536", "64K" (1024s, as context lengths are quoted), "1M".
bool parse_count(std::string_view text, uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty()) return true;
  if (unit == "k" || unit == "K") return out *= 1024, true;
  if (unit == "m" || unit == "M") return out *= 1024 * 1024, true;
  return false;
}

}  // namespace

Hints parse_hints(const std::vector<std::string>& items, std::vector<Problem>& problems) {
  static const std::vector<std::string> keys = {"mem",   "context", "batch", "role", "kv-bytes-per-token",
                                                "model", "devices"};
  static const std::vector<std::string> roles = {"train", "infer", "augment", "forward"};
  Hints hints;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals),
                      value = equals == std::string::npos ? "" : item.substr(equals + 1);
    auto bad = [&](const std::string& fix) { problems.push_back({"hint", item, fix}); };
    if (key == "mem" || key == "kv-bytes-per-token") {
      const auto bytes = parse_bytes(value);
      if (!bytes)
        bad("use " + key + "=SIZE such as " + key + (key == "mem" ? "=200GiB" : "=160KiB"));
      else
        (key == "mem" ? hints.mem_bytes : hints.kv_bytes_per_token) = *bytes;
    } else if (key == "context" || key == "batch" || key == "devices") {
      uint64_t& to = key == "batch" ? hints.batch : key == "devices" ? hints.devices : hints.context_tokens;
      if (!parse_count(value, to))
        bad("use " + key + "=NUMBER such as " + key + (key == "context" ? "=64K" : "=4"));
    } else if (key == "role") {
      hints.role = value;
      bool known = false;
      for (const std::string& r : roles) known |= r == value;
      if (!known) {
        hints.role.clear();
        const std::string near = nearest(value, roles);
        bad("use train, infer, augment or forward" + (near.empty() ? "" : " (did you mean '" + near + "'?)"));
      }
    } else if (key == "model") {
      hints.model = value;
    } else {
      const std::string near = nearest(key, keys);
      bad(near.empty() ? "known hints: mem, context, batch, role, kv-bytes-per-token, model, devices"
                       : "did you mean '" + near + "='?");
    }
  }
  return hints;
}

}  // namespace shunt::config
