// What the spec says of each slot, as constants: name, version, per-thread-stream flag, class. Any thread.
#pragma once
#include <cstdint>

#include "runtime/link/generated/slots.h"
#include "runtime/model/op.h"

namespace shunt::exec {

struct SlotInfo {
  const char* symbol;      // "cuMemAlloc_v2"
  const char* name;        // "cuMemAlloc"
  uint32_t version, flag;  // as cuGetProcAddress takes them; flag 2: per-thread default stream
  model::OpClass op_class;
};

inline constexpr SlotInfo kSlots[] = {
#define SHUNT_SLOT_INFO(entry, base, version, flag, cls, library) \
  {#entry, #base, version, flag, model::OpClass::cls},
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO
};
static_assert(sizeof kSlots / sizeof kSlots[0] == SHUNT_SLOT_COUNT);
// The table is indexed by slot: compare a few letters of each name, which a wrong order would not survive.
#define SHUNT_SLOT_INFO(entry, base, version, flag, cls, library)             \
  static_assert(kSlots[SHUNT_SLOT_##entry].symbol[sizeof(#entry) - 1] == 0 && \
                kSlots[SHUNT_SLOT_##entry].symbol[sizeof(#entry) - 2] == #entry[sizeof(#entry) - 2]);
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO

}  // namespace shunt::exec
