/* The real loader functions and the two libraries whose calls are intercepted: found in what is already
 * loaded, and pinned (never unloaded afterwards), so that addresses kept in slots stay valid when the program
 * calls dlclose. Any thread; nothing here is undone at exit. */
#pragma once
#include <errno.h>

#include "interpose/elf_view.h"

namespace shunt::interpose {

// Look-ups and calls of the application must leave errno as the real ones would have.
class ErrnoScope {
 public:
  ErrnoScope() : saved_(errno) {}
  ~ErrnoScope() { errno = saved_; }
  ErrnoScope(const ErrnoScope&) = delete;
  ErrnoScope& operator=(const ErrnoScope&) = delete;

 private:
  int saved_;
};

// libc's or libdl's own functions, by way of any other interposer loaded after us. Null: this process has
// none yet.
SHUNT_HIDDEN void* real_dlopen(const char* path, int mode);
SHUNT_HIDDEN void* real_dlsym(void* handle, const char* name);
SHUNT_HIDDEN void* real_dlvsym(void* handle, const char* name, const char* version);
SHUNT_HIDDEN bool find_loader_functions();
SHUNT_HIDDEN void forget_dlerror();  // drops a message our own calls may have left behind

// The driver, if it is loaded. Never loads it: a program that did not is one without CUDA.
SHUNT_HIDDEN bool driver_library(ElfView* out);

// libnccl.so.2, or whatever library defines that symbol (NCCL linked statically into a framework).
SHUNT_HIDDEN bool nccl_library(const char* symbol, ElfView* out);

}  // namespace shunt::interpose

extern "C" {
// The tail jumps of entry.S go through these.
extern SHUNT_HIDDEN void* shunt_real_dlsym;
extern SHUNT_HIDDEN void* shunt_real_dlvsym;
}
