/* The names of the spec: which slot an exported symbol has, and which versions a base name has for
 * cuGetProcAddress. Generated read-only tables (generated/names.inc); no state, any thread. */
#pragma once
#include <stdint.h>

#include "interpose/state.h"

namespace shunt::interpose {

constexpr uint16_t kNameDlsym = 0xfffe, kNameDlvsym = 0xffff;  // in place of a slot

struct NameRow {
  uint16_t offset;         // in the string pool
  uint16_t slot;           // of the symbol with exactly this name
  uint16_t first_version;  // rows of kVersions, newest version first; the per-thread-stream form before the
                           // legacy one
  uint16_t version_count;
};

struct VersionRow {
  uint16_t version;  // as cuGetProcAddress counts: 12000 is CUDA 12.0
  uint16_t flag;     // 2: per-thread default stream
  uint16_t slot;
};

// Null: not in the spec. An exact match, never a prefix.
SHUNT_HIDDEN const NameRow* find_name(const char* name);
SHUNT_HIDDEN const VersionRow* versions_of(const NameRow& row);
SHUNT_HIDDEN uint32_t name_hash(const char* name);  // the generator computes the same
SHUNT_HIDDEN const char* slot_symbol(uint32_t slot);

}  // namespace shunt::interpose
