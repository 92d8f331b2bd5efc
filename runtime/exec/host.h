// Our side of the C table of runtime/link: real entry points and hook installation. g_real is filled before a
// hook goes in and never changes, so hooks read it without care. Any thread.
#pragma once
#include <cstdint>

#include "runtime/exec/slot_info.h"
#include "runtime/link/generated/signatures.h"
#include "runtime/link/runtime_link.h"

namespace shunt::exec {

template <uint32_t Slot>
using Fn = typename link::SlotSignature<static_cast<ShuntSlot>(Slot)>::type;

extern const ShuntHost* g_host;
extern void* g_real[SHUNT_SLOT_COUNT];

// The real entry point, asked once; null when the driver lacks it.
void* real_address(uint32_t slot);

template <uint32_t Slot>
Fn<Slot> real() {
  return reinterpret_cast<Fn<Slot>>(g_real[Slot]);
}
// For slots that may not have been resolved yet.
template <uint32_t Slot>
Fn<Slot> driver() {
  return reinterpret_cast<Fn<Slot>>(real_address(Slot));
}

// While one lives on this thread, look-ups made by a library we load and call (NVML) get the driver's own
// functions.
class OwnWork {
 public:
  OwnWork() : depth_(g_host && g_host->thread_depth ? g_host->thread_depth() : nullptr) {
    if (depth_) ++*depth_;
  }
  ~OwnWork() {
    if (depth_) --*depth_;
  }
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;

 private:
  int* depth_;
};

// False when the driver has no such entry point (nothing is installed then).
bool install(uint32_t slot, void* hook);
void uninstall(uint32_t slot);

}  // namespace shunt::exec
