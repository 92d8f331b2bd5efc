#include "interpose/names.h"

#include "interpose/text.h"

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

// First, middle and last eight bytes: names of the spec are long and share prefixes and suffixes, and a
// byte-wise hash of them would cost more than the rest of the look-up.
uint32_t name_hash(const char* name) {
  size_t size = length(name);
  uint64_t first = 0, middle = 0, last = 0;
  if (size >= 8) {
    __builtin_memcpy(&first, name, 8);
    __builtin_memcpy(&middle, name + size / 2 - 4, 8);
    __builtin_memcpy(&last, name + size - 8, 8);
  } else {
    for (size_t i = 0; i < size; ++i) first |= uint64_t{static_cast<unsigned char>(name[i])} << (8 * i);
  }
  uint64_t mixed = first + middle * 0x9E3779B97F4A7C15u + last * 0xC2B2AE3D27D4EB4Fu + size;
  return static_cast<uint32_t>(((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9u) >> 32);
}

const NameRow* find_name(const char* name) {
  if (!may_be_ours(name)) return nullptr;
  uint32_t hash = name_hash(name);
  for (uint32_t at = hash & kNameHashMask; kNameTable[at]; at = (at + 1) & kNameHashMask) {
    if ((kNameTable[at] ^ hash) >> 16) continue;
    const NameRow& row = kNames[(kNameTable[at] & 0xffff) - 1];
    if (equal(kNamePool + row.offset, name)) return &row;
  }
  return nullptr;
}

const VersionRow* versions_of(const NameRow& row) { return kVersions + row.first_version; }

const char* slot_symbol(uint32_t slot) { return kNamePool + kSlotNames[slot]; }

}  // namespace shunt::interpose
