#include "runtime/binary/fatbin.h"

namespace shunt::binary {
namespace {

uint32_t major_of(uint32_t sm) { return sm / 10; }

// At the same sm the more specific build wins.
uint64_t rank(const Entry& entry) {
  return uint64_t{entry.sm} * 4 + (entry.arch_specific ? 2 : entry.family_specific ? 1 : 0);
}

// A family shares its major number; later members run what earlier ones do.
bool same_family(const Entry& entry, uint32_t cc) {
  return major_of(entry.sm) == major_of(cc) && entry.sm <= cc;
}

bool runs_elf(const Entry& entry, uint32_t cc) {
  if (entry.arch_specific) return entry.sm == cc;
  return same_family(entry, cc);  // for plain cubins the same rule: same major, minor not above the device's
}

bool runs_ptx(const Entry& entry, uint32_t cc) {
  if (entry.arch_specific) return entry.sm == cc;
  if (entry.family_specific) return same_family(entry, cc);
  return entry.sm <= cc;
}

}  // namespace

Choice choose(const std::vector<Entry>& entries, uint32_t cc, bool allow_newer_ptx) {
  Choice choice;
  int newer = -1;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const int index = static_cast<int>(i);
    auto better = [&](int than) {
      return than < 0 || rank(entry) > rank(entries[static_cast<size_t>(than)]);
    };
    if (entry.kind == Entry::Kind::elf) {
      if (runs_elf(entry, cc) && better(choice.elf)) choice.elf = index;
    } else if (entry.kind == Entry::Kind::ptx) {
      if (runs_ptx(entry, cc)) {
        if (better(choice.ptx)) choice.ptx = index;
      } else if (!entry.arch_specific && !entry.family_specific && entry.sm > cc) {
        if (newer < 0 || entry.sm < entries[static_cast<size_t>(newer)].sm) newer = index;
      }
    }
  }
  if (choice.ptx < 0 && allow_newer_ptx) choice.ptx = newer;
  return choice;
}

}  // namespace shunt::binary
