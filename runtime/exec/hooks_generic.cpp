// Every driver slot that is not harmless gets a hook: those without a description of their own get the
// generic one here, so that a delaying link sees (and drains at) everything it does not understand.
#include "runtime/exec/hook_tables.h"

namespace shunt::exec {
namespace {

template <uint32_t Slot>
constexpr void* generic() {
  if constexpr (Slot >= SHUNT_SLOT_FIRST_NCCL) {
    return nullptr;  // NCCL calls belong to the overlap engine
  } else if constexpr (kSlots[Slot].op_class == model::OpClass::harmless && !Rim<Slot>::kActive) {
    return nullptr;
  } else {
    return reinterpret_cast<void*>(&Hook<Slot, false>::entry);
  }
}

}  // namespace

bool bears_ordinals(uint32_t slot) {
  switch (slot) {
#define SHUNT_SLOT_INFO(symbol, base, version, flag, cls, library) \
  case SHUNT_SLOT_##symbol:                                        \
    return Rim<SHUNT_SLOT_##symbol>::kActive;
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO
    default:
      return false;
  }
}

const std::vector<void*>& all_hooks() {
  static const std::vector<void*>* hooks = [] {
    auto* table = new std::vector<void*>(SHUNT_SLOT_COUNT, nullptr);
#define SHUNT_SLOT_INFO(symbol, base, version, flag, cls, library) \
  (*table)[SHUNT_SLOT_##symbol] = generic<SHUNT_SLOT_##symbol>();
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO
    std::vector<HookEntry> described;
    append_memory_hooks(described);
    append_copy_hooks(described);
    append_launch_hooks(described);
    append_stream_hooks(described);
    append_context_hooks(described);
    append_module_hooks(described);
    for (const HookEntry& e : described) (*table)[e.slot] = e.hook;
    return table;
  }();
  return *hooks;
}

}  // namespace shunt::exec
