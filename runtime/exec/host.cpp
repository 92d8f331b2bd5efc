#include "runtime/exec/host.h"

#include <atomic>

namespace shunt::exec {

const ShuntHost* g_host = nullptr;
void* g_real[SHUNT_SLOT_COUNT];

void* real_address(uint32_t slot) {
  std::atomic_ref<void*> cell(g_real[slot]);
  void* known = cell.load(std::memory_order_acquire);
  if (!known && g_host) {
    known = g_host->real(slot);
    if (known) cell.store(known, std::memory_order_release);
  }
  return known;
}

bool install(uint32_t slot, void* hook) {
  if (!hook || !real_address(slot)) return false;
  g_host->set_hook(slot, hook);
  return true;
}

void uninstall(uint32_t slot) { g_host->set_hook(slot, nullptr); }

}  // namespace shunt::exec
