/* The slots: what each of them leads to, and where the real functions are. */
#include "interpose/loader.h"
#include "interpose/names.h"
#include "interpose/state.h"

namespace shunt::interpose {
namespace {

void* g_real[SHUNT_SLOT_COUNT];   // found once, then kept: both libraries are pinned before their first use
void* g_hooks[SHUNT_SLOT_COUNT];  // what the runtime asked for; takes effect where the real function exists

constexpr uintptr_t kAbsent = 1;  // in g_real: looked for in a loaded library and not there

enum Missing : uint8_t { kMissingResult, kMissingText, kMissingVoid };

struct SlotFacts {
  Missing missing;
};
constexpr SlotFacts kFacts[] = {
#define SHUNT_SLOT_CUDA(symbol, version, flag) {kMissingResult},
#define SHUNT_SLOT_NCCL(symbol, missing) {missing},
#include "interpose/generated/slots.inc"
#undef SHUNT_SLOT_CUDA
#undef SHUNT_SLOT_NCCL
};
static_assert(sizeof(kFacts) / sizeof(kFacts[0]) == SHUNT_SLOT_COUNT);

// What a call gets when the library it belongs to is not in the process. Arguments are ignored: the x86-64
// convention leaves them to the caller.
int no_driver() { return kCudaErrorStubLibrary; }
int not_in_driver() { return kCudaErrorNotSupported; }
int no_nccl() { return 2; }  // ncclSystemError
const char* no_nccl_text() { return "libnccl.so.2 is not loaded"; }
void no_nccl_void() {}

template <class F>
void* address_of(F* function) {
  return reinterpret_cast<void*>(function);
}

void* missing(uint32_t slot, bool library_loaded) {
  if (slot < SHUNT_SLOT_FIRST_NCCL) return library_loaded ? address_of(not_in_driver) : address_of(no_driver);
  switch (kFacts[slot].missing) {
    case kMissingText:
      return address_of(no_nccl_text);
    case kMissingVoid:
      return address_of(no_nccl_void);
    default:
      return address_of(no_nccl);
  }
}

void* thunk(uint32_t slot) { return shunt_thunks + slot * kStubBytes; }

bool is_owned(uint32_t slot) { return owned_hook(slot) != nullptr; }

// The hook goes in only where the real function is known to exist; otherwise the thunk decides at the first
// call.
void place(uint32_t slot) {
  void* hook = load(g_hooks[slot]);
  store(shunt_slots[slot], hook && real(slot) ? hook : thunk(slot));
}

}  // namespace

void* real(uint32_t slot) {
  if (slot >= SHUNT_SLOT_COUNT) return nullptr;
  void* known = load(g_real[slot]);
  if (known) return known == reinterpret_cast<void*>(kAbsent) ? nullptr : known;
  ElfView library;
  const char* symbol = slot_symbol(slot);
  if (slot < SHUNT_SLOT_FIRST_NCCL ? !driver_library(&library) : !nccl_library(symbol, &library))
    return nullptr;
  void* found = find_symbol(library, symbol);
  store(g_real[slot], found ? found : reinterpret_cast<void*>(kAbsent));
  return found;
}

bool hooked(uint32_t slot) {
  // A forked child keeps answering with our symbols: its look-ups come before the cuInit that makes the hooks
  // apply again.
  if (state() != kOn && !forked()) return false;
  return load(g_hooks[slot]) != nullptr || is_owned(slot) || slot == SHUNT_SLOT_cuInit;
}

void* exported(uint32_t slot) { return shunt_exports + slot * kStubBytes; }

bool is_exported_stub(const void* address) {
  auto at = static_cast<const char*>(address);
  return at >= shunt_exports && at < shunt_exports_end;
}

void set_hook(uint32_t slot, void* function) {
  if (slot >= SHUNT_SLOT_COUNT || is_owned(slot)) return;
  store(g_hooks[slot], function);
  if (state() == kOn) place(slot);
}

void arm_slots() {
  for (uint32_t slot = 0; slot < SHUNT_SLOT_COUNT; ++slot) {
    if (is_owned(slot)) store(g_hooks[slot], owned_hook(slot));
    if (load(g_hooks[slot])) place(slot);
  }
}

void disarm_slots() {
  for (uint32_t slot = 0; slot < SHUNT_SLOT_COUNT; ++slot) {
    // Back to the thunk, which finds the real function again; cuInit in any case, because it ends a child's
    // pass-through.
    if (slot == SHUNT_SLOT_cuInit || (load(g_hooks[slot]) && !is_owned(slot)))
      store(shunt_slots[slot], thunk(slot));
  }
}

}  // namespace shunt::interpose

using namespace shunt::interpose;

// Called by a thunk: the first call through this slot, or one while nothing could be decided yet.
extern "C" SHUNT_HIDDEN void* shunt_resolve(uint32_t slot) {
  ErrnoScope keep_errno;
  ElfView library;
  if (slot < SHUNT_SLOT_FIRST_NCCL && !driver_library(&library)) {
    // A program may carry its own functions of these names (wrappers that load the driver lazily). Ours came
    // first in the search order; without us those would have been called.
    const char* symbol = slot_symbol(slot);
    if (find_definer(symbol, &library)) return find_symbol(library, symbol);
    return missing(slot, false);
  }
  State reached = attach();
  if (slot == SHUNT_SLOT_cuInit && forked()) rearm();
  void* function = real(slot);
  if (!function) return missing(slot, true);
  void* hook = state() == kOn || is_owned(slot) ? load(g_hooks[slot]) : nullptr;
  void* target = hook ? hook : function;
  // Undecided: somebody is opening the runtime right now, or NCCL was called before any driver was loaded.
  if (reached == kOn || reached == kOff) swap_if(shunt_slots[slot], thunk(slot), target);
  return target;
}
