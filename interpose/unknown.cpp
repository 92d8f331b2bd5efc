/* Entry points the driver has and the spec does not: while an engine may hold work back, the application gets
 * a trampoline (entry.S) that lets the runtime issue that work first. Which function it is does not matter,
 * so neither do its types. */
#include "interpose/state.h"

extern "C" {
void* shunt_unknown_targets[shunt::interpose::kUnknownPool];
int shunt_drain_on = 0;
}

namespace shunt::interpose {
namespace {
int g_wanted;  // what the runtime asked for; a forked child suspends it
int g_paused;

void apply() { store(shunt_drain_on, load(g_wanted) && !load(g_paused)); }
}  // namespace

void* unknown_entry(void* real_function) {
  for (unsigned i = 0; i < kUnknownPool; ++i) {
    void* taken = load(shunt_unknown_targets[i]);
    if (!taken && swap_if(shunt_unknown_targets[i], static_cast<void*>(nullptr), real_function))
      taken = real_function;
    if (!taken) taken = load(shunt_unknown_targets[i]);  // another thread was faster
    if (taken == real_function) return shunt_unknown + i * kStubBytes;
  }
  return real_function;  // docs/adr/0001: a driver with more than 256 functions unknown to the spec needs a
                         // new spec
}

bool drains_unknown() { return load(shunt_drain_on) != 0; }

void set_drain_unknown(int on) {
  store(g_wanted, on != 0);
  apply();
}

void pause_drain_unknown(bool paused) {
  store(g_paused, paused);
  apply();
}

}  // namespace shunt::interpose

extern "C" SHUNT_HIDDEN void shunt_drain_unknown(void* real_function) {
  const ShuntRuntime* table = shunt::interpose::runtime();
  if (table && table->drain_unknown) table->drain_unknown(real_function);
}
