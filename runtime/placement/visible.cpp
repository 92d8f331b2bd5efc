#include "runtime/placement/visible.h"

#include <algorithm>
#include <charconv>

#include "runtime/config/options.h"

namespace shunt::placement {

std::string DeviceFacts::label() const {
  if (!profile) return name;
  std::string out(profile->key);
  const bool model_number = std::any_of(out.begin(), out.end(), [](char c) { return c >= '0' && c <= '9'; });
  for (size_t i = 0; i < out.size() && out[i] != '-'; i++)
    if (i == 0 || model_number)
      out[i] = static_cast<char>(out[i] >= 'a' && out[i] <= 'z' ? out[i] - 32 : out[i]);
  return out;
}

namespace {

int find_uuid(const std::string& prefix, const std::vector<DeviceFacts>& facts) {
  int found = -1;
  for (size_t i = 0; i < facts.size(); i++) {
    if (!facts[i].uuid.starts_with(prefix)) continue;
    if (found >= 0) return -1;  // ambiguous: CUDA treats it as invalid
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

Visible parse_visible(const std::optional<std::string>& variable, const std::vector<DeviceFacts>& facts) {
  Visible out;
  if (!variable) {
    for (size_t i = 0; i < facts.size(); i++) out.devices.push_back(static_cast<int>(i));
    return out;
  }
  for (const std::string& entry : config::split(*variable, ',')) {
    int device = -1;
    if (entry.starts_with("MIG-")) {
      out.opaque = true;
      out.why = "entry '" + entry + "' is a MIG instance";
      return out;
    }
    if (entry.starts_with("GPU-")) {
      device = find_uuid(entry, facts);
    } else {
      int ordinal = -1;
      const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
      const bool whole = error == std::errc() && end == entry.data() + entry.size();
      if (whole && ordinal >= 0 && ordinal < static_cast<int>(facts.size())) device = ordinal;
    }
    if (device < 0) {
      out.why = "entry '" + entry + "' names no device: it and what follows are invisible, as without shunt";
      break;
    }
    if (std::find(out.devices.begin(), out.devices.end(), device) != out.devices.end()) {
      out.opaque = true;
      out.why = "entry '" + entry + "' names a device twice";
      return out;
    }
    out.devices.push_back(device);
  }
  return out;
}

}  // namespace shunt::placement
