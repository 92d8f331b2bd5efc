// The driver's real entry points, typed, for engines and helper threads on their own private streams. A
// missing one is null and its capability bit is clear: ask before relying on it. Resolved once, immutable
// afterwards; any thread.
#pragma once
#include <bitset>

#include "runtime/exec/host.h"

namespace shunt::exec {

enum class Capability : uint16_t {
#define SHUNT_DRIVER(member, symbol) member,
#include "runtime/exec/driver.def"
#undef SHUNT_DRIVER
  count
};

struct Driver {
#define SHUNT_DRIVER(member, symbol) Fn<SHUNT_SLOT_##symbol> member = nullptr;
#include "runtime/exec/driver.def"
#undef SHUNT_DRIVER
  std::bitset<static_cast<size_t>(Capability::count)> capabilities;
  bool has(Capability c) const { return capabilities[static_cast<size_t>(c)]; }

  // Resolves everything on first use; the interposer's table must be set.
  static const Driver& get();
};

}  // namespace shunt::exec
