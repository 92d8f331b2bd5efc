/* dlsym and dlvsym, and the only place that calls the real ones. entry.S asks shunt_dl*sym_decide and either
 * returns its answer or jumps on to the real function. */
#include <dlfcn.h>

#include "interpose/loader.h"
#include "interpose/names.h"
#include "interpose/state.h"

extern "C" {
void* shunt_real_dlsym = nullptr;
void* shunt_real_dlvsym = nullptr;
}

namespace shunt::interpose {
namespace {

void* g_real_dlopen;
void* g_real_dlerror;
ElfView g_driver, g_nccl;
int g_driver_known, g_nccl_known;  // 0: look for it, 1: being written, 2: the view is valid

// A look-up of a listed name: with dlsym, or with dlvsym and a version.
struct Query {
  void* handle;
  const char* name;
  const char* version;  // null: dlsym

  // Called from here, so for RTLD_NEXT and RTLD_DEFAULT the loader takes this library for the caller.
  void* ask(void* with_handle) const {
    return version ? real_dlvsym(with_handle, name, version) : real_dlsym(with_handle, name);
  }
};

bool is_pseudo(void* handle) { return handle == RTLD_DEFAULT || handle == RTLD_NEXT; }

// Keeps the first view that is found and makes sure its library stays. Two threads may come here with the
// same view.
void remember(ElfView& cell, int& known, const ElfView& view) {
  // By the loader's own name for it: adds a reference, loads nothing.
  BusyScope busy;
  real_dlopen(view.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  forget_dlerror();
  if (!swap_if(known, 0, 1)) return;
  cell = view;
  store(known, 2);
}

bool known_or_found(ElfView& cell, int& known, const char* soname, ElfView* out) {
  if (load(known) == 2) {
    *out = cell;
    return true;
  }
  if (!find_library(soname, out)) return false;
  remember(cell, known, *out);
  return true;
}

// The library's own address for the slot's symbol, if the library is loaded. Loads nothing.
void* loaded_address(uint32_t slot) { return real(slot); }

// Without the real library our own symbol is the only thing a search of the global scope may find, and it
// must not: a probe for an absent function stays absent.
bool decide_pseudo(const Query& query, uint32_t slot, void* caller, void** answer) {
  if (loaded_address(slot)) {
    attach();
    return false;
  }
  if (query.handle == RTLD_NEXT && !comes_before_us(caller)) return false;  // that search never meets us
  if (query.handle == RTLD_DEFAULT && !is_exported_stub(query.ask(RTLD_DEFAULT))) return false;
  *answer = query.ask(RTLD_NEXT);
  return true;
}

void decide_handle(const Query& query, uint32_t slot, void** answer) {
  void* found = query.ask(query.handle);
  if (is_exported_stub(found)) {  // the program's own handle, dlopen(NULL): its search meets us
    if (loaded_address(slot)) {
      attach();
      found = query.ask(query.handle);
    } else {
      found = query.ask(RTLD_NEXT);
    }
  } else if (found && found == loaded_address(slot)) {
    State before = state();
    attach();
    // Opening the runtime made loader calls of its own; the last one must be the application's, for dlerror's
    // sake.
    if (state() != before) found = query.ask(query.handle);
    if (hooked(slot)) found = exported(slot);
  }
  *answer = found;
}

// A program that looks dlsym itself up gets ours, or its later look-ups would miss what the earlier ones were
// told.
void decide_loader_function(const Query& query, uint16_t which, void** answer) {
  void* found = query.ask(query.handle);
  if (found && enabled()) {
    if (which == kNameDlsym && found == shunt_real_dlsym) found = reinterpret_cast<void*>(&dlsym);
    if (which == kNameDlvsym && found == shunt_real_dlvsym) found = reinterpret_cast<void*>(&dlvsym);
  }
  *answer = found;
}

// A function of the driver that the spec does not list, while some engine holds work back.
bool decide_unlisted(const Query& query, void** answer) {
  ElfView driver;
  if (is_pseudo(query.handle) || !drains_unknown() || !driver_library(&driver)) return false;
  void* found = query.ask(query.handle);
  *answer = found && driver.contains_text(found) ? unknown_entry(found) : found;
  return true;
}

int decide(const Query& query, void* caller, void** answer) {
  if (!find_loader_functions()) {
    *answer = nullptr;
    return 1;
  }
  if (tl_busy || !query.name) return 0;
  const NameRow* row = find_name(query.name);
  if (!row) return load(shunt_drain_on) && decide_unlisted(query, answer);
  if (row->slot >= SHUNT_SLOT_COUNT) {
    if (is_pseudo(query.handle)) return 0;
    decide_loader_function(query, row->slot, answer);
    return 1;
  }
  if (is_pseudo(query.handle)) return decide_pseudo(query, row->slot, caller, answer);
  decide_handle(query, row->slot, answer);
  return 1;
}

}  // namespace

bool find_loader_functions() {
  if (load(shunt_real_dlsym)) return true;
  store(g_real_dlopen, find_after_us("dlopen"));
  store(g_real_dlerror, find_after_us("dlerror"));
  store(shunt_real_dlvsym, find_after_us("dlvsym"));
  store(shunt_real_dlsym, find_after_us("dlsym"));  // last: the others are valid once this is
  return load(shunt_real_dlsym) != nullptr;
}

void* real_dlopen(const char* path, int mode) {
  if (!find_loader_functions() || !load(g_real_dlopen)) return nullptr;
  return reinterpret_cast<void* (*)(const char*, int)>(load(g_real_dlopen))(path, mode);
}

void* real_dlsym(void* handle, const char* name) {
  if (!find_loader_functions()) return nullptr;
  return reinterpret_cast<void* (*)(void*, const char*)>(load(shunt_real_dlsym))(handle, name);
}

void* real_dlvsym(void* handle, const char* name, const char* version) {
  if (!find_loader_functions() || !load(shunt_real_dlvsym)) return nullptr;
  auto function = reinterpret_cast<void* (*)(void*, const char*, const char*)>(load(shunt_real_dlvsym));
  return function(handle, name, version);
}

void forget_dlerror() {
  if (load(g_real_dlerror)) reinterpret_cast<char* (*)()>(load(g_real_dlerror))();
}

bool driver_library(ElfView* out) { return known_or_found(g_driver, g_driver_known, "libcuda.so.1", out); }

bool nccl_library(const char* symbol, ElfView* out) {
  if (known_or_found(g_nccl, g_nccl_known, "libnccl.so.2", out)) return true;
  if (!find_definer(symbol, out)) return false;
  remember(g_nccl, g_nccl_known, *out);
  return true;
}

}  // namespace shunt::interpose

using namespace shunt::interpose;

// 1: *answer is the result. 0: jump on to the real function.
extern "C" SHUNT_HIDDEN int shunt_dlsym_decide(void* handle, const char* name, void** answer, void* caller) {
  return decide({handle, name, nullptr}, caller, answer);
}

extern "C" SHUNT_HIDDEN int shunt_dlvsym_decide(void* handle, const char* name, const char* version,
                                                void** answer, void* caller) {
  if (!version) return find_loader_functions() ? 0 : (*answer = nullptr, 1);
  return decide({handle, name, version}, caller, answer);
}
