/* State of libshunt.so. Everything here is constant-initialised (calls may come before any constructor),
 * never destroyed (calls may come after every destructor) and hidden. libc only: no libstdc++, no exceptions,
 * no allocation.
 *
 * Threads: every field may be read and written by any thread; the atomics below are the whole
 * synchronisation. No lock is held while the real loader, driver or runtime runs. Exit: shunt_exit() runs the
 * runtime's at_exit once, after which every slot is the real function again. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "runtime/link/generated/slots.h"
#include "runtime/link/runtime_link.h"

#define SHUNT_HIDDEN __attribute__((visibility("hidden")))

namespace shunt::interpose {

constexpr unsigned kStubBytes = 16;  // distance of neighbours in shunt_exports, shunt_thunks, shunt_unknown
constexpr unsigned kUnknownPool = 256;  // trampolines in entry.S

// CUresult values answered by this library itself, from the public documentation of cuda.h.
constexpr int kCudaErrorStubLibrary = 34;    // no driver in this process
constexpr int kCudaErrorNotSupported = 801;  // the driver lacks this function

enum State : int {
  kIdle,       // nothing of CUDA seen yet
  kAttaching,  // some thread is inside shunt_runtime_open
  kOn,         // the runtime is there; hooks apply
  kOff,        // SHUNT_DISABLE, secure execution, no runtime, or it declined: pass-through for good
};

template <class T>
inline T load(const T& cell) {
  return __atomic_load_n(&cell, __ATOMIC_ACQUIRE);
}
template <class T, class V>
inline void store(T& cell, V value) {
  __atomic_store_n(&cell, static_cast<T>(value), __ATOMIC_RELEASE);
}
template <class T>
inline bool swap_if(T& cell, T expected, T desired) {
  return __atomic_compare_exchange_n(&cell, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

// Set while this thread is inside our own set-up, the runtime's opening, or work the runtime makes
// (thread_depth): its look-ups then go straight through. Initial-exec: a general-dynamic access would call
// the loader.
extern SHUNT_HIDDEN thread_local int tl_busy __attribute__((tls_model("initial-exec")));

struct BusyScope {
  BusyScope() { ++tl_busy; }
  ~BusyScope() { --tl_busy; }
  BusyScope(const BusyScope&) = delete;
  BusyScope& operator=(const BusyScope&) = delete;
};

// lifecycle.cpp
SHUNT_HIDDEN bool enabled();  // the off-switch and secure execution, read once
SHUNT_HIDDEN State attach();  // opens the runtime if the real driver is loaded; kIdle when it is not
SHUNT_HIDDEN State state();   // kOn only while hooks apply: not after exit began, not in a forked child
SHUNT_HIDDEN bool forked();   // in a child that has not initialised CUDA yet
SHUNT_HIDDEN void rearm();    // that child initialises CUDA: hooks apply again
SHUNT_HIDDEN const ShuntRuntime* runtime();

// slots.cpp
SHUNT_HIDDEN void* real(uint32_t slot);  // null: the library is absent or lacks it
SHUNT_HIDDEN void set_hook(uint32_t slot, void* function);
SHUNT_HIDDEN bool hooked(uint32_t slot);     // look-ups must answer with our symbol
SHUNT_HIDDEN void* exported(uint32_t slot);  // our own symbol for it
SHUNT_HIDDEN bool is_exported_stub(const void* address);
SHUNT_HIDDEN void arm_slots();                 // hooks into the slots
SHUNT_HIDDEN void disarm_slots();              // real functions into the slots
SHUNT_HIDDEN void* owned_hook(uint32_t slot);  // cuGetProcAddress and _v2, which this library answers

// proc_address.cpp
SHUNT_HIDDEN void* proc_address_answer(const char* name, void* found, int version, uint64_t flags);

// unknown.cpp
SHUNT_HIDDEN void* unknown_entry(
    void* real_function);  // a trampoline, or the function itself when none is left
SHUNT_HIDDEN bool drains_unknown();
SHUNT_HIDDEN void set_drain_unknown(int on);
SHUNT_HIDDEN void pause_drain_unknown(bool paused);

}  // namespace shunt::interpose

// entry.S
extern "C" {
extern SHUNT_HIDDEN char shunt_exports[], shunt_exports_end[], shunt_thunks[], shunt_unknown[];
extern SHUNT_HIDDEN void* shunt_slots[SHUNT_SLOT_COUNT];
extern SHUNT_HIDDEN void* shunt_unknown_targets[shunt::interpose::kUnknownPool];
extern SHUNT_HIDDEN int shunt_drain_on;
}
