#include "runtime/exec/driver.h"

namespace shunt::exec {

const Driver& Driver::get() {
  static const Driver* driver = [] {
    auto* d = new Driver();
#define SHUNT_DRIVER(member, symbol)               \
  d->member = exec::driver<SHUNT_SLOT_##symbol>(); \
  d->capabilities[static_cast<size_t>(Capability::member)] = d->member != nullptr;
#include "runtime/exec/driver.def"
#undef SHUNT_DRIVER
    return d;
  }();
  return *driver;
}

}  // namespace shunt::exec
