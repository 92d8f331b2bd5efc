#include "runtime/profiles/profile.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace shunt::profiles {
namespace {

constexpr Profile kProfiles[] = {
#include "runtime/profiles/generated/profiles.inc"
};

constexpr uint32_t kVendorNvidia = 0x10DE;
constexpr size_t kLongestKey = 32;

// Levenshtein distance, letters compared without case. Keys are short, so two rows on the stack are enough.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::array<size_t, kLongestKey + 1> row{};
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      bool same = std::tolower(static_cast<unsigned char>(a[i - 1])) ==
                  std::tolower(static_cast<unsigned char>(b[j - 1]));
      size_t change = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

char mark_letter(Mark mark) { return "CDALK"[static_cast<int>(mark)]; }

std::span<const Profile> all() { return kProfiles; }

const Profile* find(std::string_view key) {
  for (const Profile& p : kProfiles)
    if (p.key == key) return &p;
  return nullptr;
}

const Profile* identify(uint32_t pci_device_id, uint32_t nvml_architecture, uint32_t cc_major,
                        uint32_t cc_minor, std::string_view name) {
  if (pci_device_id > 0xFFFF) {
    if ((pci_device_id & 0xFFFF) != kVendorNvidia) return nullptr;
    pci_device_id >>= 16;
  }
  if (pci_device_id != 0)
    for (const Profile& p : kProfiles)
      if (p.pci_device_id == pci_device_id) return &p;

  const Profile* only = nullptr;
  const Profile* named = nullptr;
  int candidates = 0;
  for (const Profile& p : kProfiles) {
    if (nvml_architecture != 0 && p.nvml_architecture != nvml_architecture) continue;
    if (cc_major != 0 && (p.cc_major != cc_major || p.cc_minor != cc_minor)) continue;
    ++candidates;
    only = &p;
    if (!p.name_is_placeholder && p.name == name) named = &p;
  }
  bool chip_known = nvml_architecture != 0 || cc_major != 0;
  if (candidates == 1 && chip_known) return only;
  return named;
}

const Profile* nearest(std::string_view key) {
  if (key.empty() || key.size() > kLongestKey) return nullptr;
  const Profile* best = nullptr;
  size_t best_distance = std::max<size_t>(2, key.size() / 2) + 1;
  for (const Profile& p : kProfiles) {
    size_t distance = edit_distance(key, p.key);
    if (distance < best_distance) best_distance = distance, best = &p;
  }
  return best;
}

}  // namespace shunt::profiles
