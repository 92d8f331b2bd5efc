/* cuGetProcAddress: the driver answers first; its answer is replaced only when it is, by address, the
 * function a hook was installed for. Status and error code stay the driver's. */
#include "interpose/loader.h"
#include "interpose/names.h"
#include "interpose/state.h"

namespace shunt::interpose {
namespace {

using ProcAddress = int (*)(const char*, void**, int, uint64_t);
using ProcAddress2 = int (*)(const char*, void**, int, uint64_t, int*);

constexpr uint64_t kPerThreadStream = 2;

// What the driver says for exactly the version the spec lists: for drivers whose look-up answers with other
// addresses than their symbol table.
void* ask_driver(const char* name, int version, uint64_t flags) {
  void* found = nullptr;
  int status = 0;
  if (auto ask = reinterpret_cast<ProcAddress2>(real(SHUNT_SLOT_cuGetProcAddress_v2))) {
    if (ask(name, &found, version, flags, &status) != 0) found = nullptr;
  } else if (auto ask_old = reinterpret_cast<ProcAddress>(real(SHUNT_SLOT_cuGetProcAddress))) {
    if (ask_old(name, &found, version, flags) != 0) found = nullptr;
  }
  return found;
}

void* publish(uint32_t slot, void* found) { return hooked(slot) ? exported(slot) : found; }

int proc_address(const char* name, void** result, int version, uint64_t flags) {
  auto ask = reinterpret_cast<ProcAddress>(real(SHUNT_SLOT_cuGetProcAddress));
  int code = ask(name, result, version, flags);
  if (code == 0 && name && result && *result) *result = proc_address_answer(name, *result, version, flags);
  return code;
}

int proc_address_v2(const char* name, void** result, int version, uint64_t flags, int* status) {
  auto ask = reinterpret_cast<ProcAddress2>(real(SHUNT_SLOT_cuGetProcAddress_v2));
  int code = ask(name, result, version, flags, status);
  if (code == 0 && name && result && *result) *result = proc_address_answer(name, *result, version, flags);
  return code;
}

}  // namespace

void* proc_address_answer(const char* name, void* found, int version, uint64_t flags) {
  if (tl_busy || (state() != kOn && !forked())) return found;
  if (const NameRow* row = find_name(name)) {
    const VersionRow* rows = versions_of(*row);
    const VersionRow* newest = nullptr;
    for (unsigned i = 0; i < row->version_count; ++i) {
      if (rows[i].version > version || (rows[i].flag && !(flags & kPerThreadStream))) continue;
      void* own = real(rows[i].slot);
      if (own && own == found) return publish(rows[i].slot, found);
      if (own && !newest) newest = &rows[i];
    }
    // A newer driver may know a version between the spec's and the requested one: then these two answers
    // differ, and the function is not the one the hook was written for.
    if (newest && ask_driver(name, newest->version, flags) == found) return publish(newest->slot, found);
  }
  return drains_unknown() ? unknown_entry(found) : found;
}

void* owned_hook(uint32_t slot) {
  if (slot == SHUNT_SLOT_cuGetProcAddress) return reinterpret_cast<void*>(proc_address);
  if (slot == SHUNT_SLOT_cuGetProcAddress_v2) return reinterpret_cast<void*>(proc_address_v2);
  return nullptr;
}

}  // namespace shunt::interpose
