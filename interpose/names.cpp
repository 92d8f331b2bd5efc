#include "interpose/names.h"

#include <string.h>

namespace shunt::interpose {
namespace {
#include "interpose/generated/names.inc"

static_assert(sizeof(kNamePool) < 0x10000, "offsets have 16 bits");
static_assert(sizeof(kVersions) / sizeof(kVersions[0]) < 0x10000);
static_assert(kNameCount * 2 < kNameHashMask + 1, "keep the table at most half full");

// Most look-ups of a process are of other libraries' names; these two comparisons answer them.
bool may_be_ours(const char* name) {
  switch (name[0]) {
    case 'c':
      return name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
    case 'n':
      return name[1] == 'c' && name[2] == 'c' && name[3] == 'l';
    case 'p':
      return name[1] == 'n' && name[2] == 'c' && name[3] == 'c';
    case 'd':
      return name[1] == 'l';
    default:
      return false;
  }
}
}  // namespace

uint32_t name_hash(const char* name) {
  uint32_t hash = 2166136261u;
  for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash;
}

const NameRow* find_name(const char* name) {
  if (!may_be_ours(name)) return nullptr;
  for (uint32_t at = name_hash(name) & kNameHashMask; kNameTable[at]; at = (at + 1) & kNameHashMask) {
    const NameRow& row = kNames[kNameTable[at] - 1];
    if (strcmp(kNamePool + row.offset, name) == 0) return &row;
  }
  return nullptr;
}

const VersionRow* versions_of(const NameRow& row) { return kVersions + row.first_version; }

const char* slot_symbol(uint32_t slot) { return kNamePool + kSlotNames[slot]; }

}  // namespace shunt::interpose
