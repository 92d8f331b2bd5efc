// Box specifications: "b200:2,rubin:2@mem=64GiB@power=800" to devices; their links are built in links.cpp.
#include <cmath>

#include "tools/simgpu/box/box.h"
#include "tools/simgpu/box/links.h"
#include "tools/simgpu/box/text.h"

namespace simgpu {
namespace {

constexpr uint64_t kSmallestMemory = 1ull << 20, kLargestMemory = 1ull << 44;

std::string known_models() {
  std::string list;
  for (const auto& p : shunt::profiles::all()) list += (list.empty() ? "" : ", ") + std::string(p.key);
  return list;
}

bool unknown_model(std::string_view model, std::string& error) {
  const auto* near = shunt::profiles::nearest(model);
  error = "unknown device model " + quoted(model) + ": " +
          (near ? "did you mean '" + std::string(near->key) + "'? " : "") + "known models are " +
          known_models();
  return false;
}

bool apply_option(std::string_view option, DeviceSpec& device, std::string& error) {
  size_t equals = option.find('=');
  std::string_view key = trim(option.substr(0, equals));
  if (equals == std::string_view::npos || (key != "mem" && key != "power")) {
    error = "unknown device option " + quoted(option) + ": use mem=64GiB or power=800 (watts)";
    return false;
  }
  std::string_view value = trim(option.substr(equals + 1));
  const auto& profile = *device.profile;
  if (key == "mem") {
    std::optional<uint64_t> bytes = parse_bytes(value);
    if (!bytes || *bytes < kSmallestMemory || *bytes > kLargestMemory) {
      error = "bad memory size " + quoted(value) + " for " + std::string(profile.key) +
              ": use 1MiB to 16TiB, for example mem=64GiB";
      return false;
    }
    device.memory_bytes = *bytes;
    // The driver's share shrinks with the device, so that a tiny test device stays usable.
    device.reserved_bytes = static_cast<uint64_t>(
        std::floor(static_cast<double>(*bytes) * profile.reserved_bytes.value / profile.memory_bytes.value));
    return true;
  }
  if (!value.empty() && (value.back() == 'W' || value.back() == 'w')) value.remove_suffix(1);
  std::optional<double> watts = parse_number(value);
  if (!watts || *watts < profile.power_min_w.value || *watts > profile.power_max_w.value) {
    error = "bad power limit " + quoted(value) + " for " + std::string(profile.key) + ": use " +
            std::to_string(static_cast<int>(profile.power_min_w.value)) + " to " +
            std::to_string(static_cast<int>(profile.power_max_w.value)) + " watts";
    return false;
  }
  device.power_limit_w = *watts;
  return true;
}

bool parse_model(std::string_view text, DeviceSpec& device, uint64_t& count, std::string& error) {
  size_t colon = text.find(':');
  std::string_view model = trim(text.substr(0, colon));
  device.profile = shunt::profiles::find(model);
  if (!device.profile) return unknown_model(model, error);
  count = 1;
  if (colon != std::string_view::npos) {
    std::string_view number = trim(text.substr(colon + 1));
    std::optional<uint64_t> parsed = parse_count(number);
    if (!parsed || *parsed == 0 || *parsed > kMaxDevices) {
      error = "bad device count " + quoted(number) + " in " + quoted(text) + ": use 1 to " +
              std::to_string(kMaxDevices);
      return false;
    }
    count = *parsed;
  }
  device.memory_bytes = static_cast<uint64_t>(device.profile->memory_bytes.value);
  device.reserved_bytes = static_cast<uint64_t>(device.profile->reserved_bytes.value);
  device.power_limit_w = device.profile->power_default_w.value;
  return true;
}

// A part of the comma list that is only "key=value" belongs to the device before it.
bool is_option(std::string_view part) {
  size_t equals = part.find('=');
  return equals != std::string_view::npos && part.find('@') > equals;
}

void place_on_buses(std::vector<DeviceSpec>& devices) {
  // Eight slots per PCI domain, numbered as on an 8-GPU board; larger boxes get further, non-zero domains.
  static constexpr uint32_t kBuses[] = {0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF};
  size_t half = (devices.size() + 1) / 2;
  for (size_t i = 0; i < devices.size(); ++i) {
    devices[i].pci_domain = static_cast<uint32_t>(i / 8);
    devices[i].pci_bus = kBuses[i % 8];
    devices[i].numa_node = i < half ? 0 : 1;
  }
}

}  // namespace

bool parse_box_spec(std::string_view sim, std::string_view links, BoxSpec& out, std::string& error) {
  BoxSpec spec;
  if (trim(sim).empty()) {
    error = "empty device list: use model[:count][@key=value,...], for example b200:2,rubin:2@mem=64GiB";
    return false;
  }
  std::vector<std::string_view> entries;
  std::vector<std::vector<std::string_view>> options;
  for (std::string_view part : split(sim, ',')) {
    if (is_option(part) && !entries.empty()) {
      for (std::string_view option : split(part, '@')) options.back().push_back(option);
      continue;
    }
    std::vector<std::string_view> pieces = split(part, '@');
    if (pieces[0].empty()) {
      error =
          "empty device entry in " + quoted(sim) + ": write a model between the commas, for example b200:2";
      return false;
    }
    entries.push_back(pieces[0]);
    options.emplace_back(pieces.begin() + 1, pieces.end());
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    DeviceSpec device;
    uint64_t count = 0;
    if (!parse_model(entries[i], device, count, error)) return false;
    for (std::string_view option : options[i])
      if (!apply_option(option, device, error)) return false;
    if (spec.devices.size() + count > kMaxDevices) {
      error = "too many devices in " + quoted(sim) + ": a box holds at most " + std::to_string(kMaxDevices);
      return false;
    }
    spec.devices.insert(spec.devices.end(), count, device);
  }
  place_on_buses(spec.devices);
  if (!build_links(links, spec, error)) return false;
  out = std::move(spec);
  return true;
}

}  // namespace simgpu
