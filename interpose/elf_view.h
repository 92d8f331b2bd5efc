/* Looks symbols up in the libraries that are already loaded by reading their dynamic symbol tables.
 *
 * Used instead of dlsym where the answer must be a particular library's own address: it touches no dlerror
 * state, needs no handle, cannot be intercepted by anybody, and works before libdl's functions are known.
 * Also how the real dlsym is found: importing dlsym or dlvsym under any version would bind to this library's
 * own exports (they are unversioned). No state; any thread; a view is valid while its library stays loaded.
 */
#pragma once
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/state.h"

namespace shunt::interpose {

struct ElfView {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* sysv_hash = nullptr;
  const ElfW(Versym) * versions = nullptr;
  const char* soname = nullptr;  // null: has none
  const char* path = nullptr;    // the loader's name for it; "" for the program itself
  uintptr_t base = 0;
  uintptr_t text_begin = 0, text_end = 0;  // executable segments, as one range

  bool contains_text(const void* address) const {
    auto at = reinterpret_cast<uintptr_t>(address);
    return at >= text_begin && at < text_end;
  }
};

// The address of a function or object the library defines under that name (its default version); null if
// none.
SHUNT_HIDDEN void* find_symbol(const ElfView& library, const char* name);

// The first loaded library with that DT_SONAME (or, having none, that file name). False: not loaded.
SHUNT_HIDDEN bool find_library(const char* soname, ElfView* out);

// The first library loaded after this one that defines the name; our own definition never counts. For
// functions of libc and libdl only: needs nothing but memory, so it works before anything is initialised.
SHUNT_HIDDEN void* find_after_us(const char* name);

// The first library anywhere, this one excepted, that defines the name.
SHUNT_HIDDEN bool find_definer(const char* name, ElfView* out);

// Whether the address belongs to a library that comes before this one in the loader's order (the program,
// other preloads).
SHUNT_HIDDEN bool comes_before_us(const void* address);

// Path of libshunt.so as the loader knows it; may be relative.
SHUNT_HIDDEN const char* own_path();

}  // namespace shunt::interpose
