/* When hooks apply: the off-switch, opening the runtime, fork, exit. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/loader.h"
#include "interpose/state.h"
#include "interpose/text.h"

extern "C" {
// pthread_atfork proper lives in a static archive and calls exactly this; its version has not changed since
// glibc 2.3.2.
int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* dso_handle);
extern void* __dso_handle SHUNT_HIDDEN;
}

namespace shunt::interpose {

thread_local int tl_busy __attribute__((tls_model("initial-exec"))) = 0;

namespace {

enum Switch : int { kUnread, kEnabled, kDisabled };

int g_switch = kUnread;
int64_t g_state = kIdle;  // a State; with kAttaching, the process that is at it in the upper half
int g_forked;
int g_exiting;
const ShuntRuntime* g_runtime;
constexpr size_t kPathBytes = 4096;
char g_preload_path[kPathBytes];  // written by the thread that opens the runtime

State stage() { return static_cast<State>(load(g_state) & 0xff); }

bool means_no(const char* value) {
  return !*value || equal(value, "0") || equal(value, "false") || equal(value, "off") || equal(value, "no");
}

void read_switch() {
  if (load(g_switch) != kUnread) return;
  const char* disable = secure_getenv("SHUNT_DISABLE");
  bool off = getauxval(AT_SECURE) || (disable && !means_no(disable));
  store(g_switch, off ? kDisabled : kEnabled);
}

int own_pid() {
  return static_cast<int>(syscall(SYS_getpid));
}  // before glibc 2.25 getpid() was cached across clone

void host_set_hook(uint32_t slot, void* function) { set_hook(slot, function); }
void* host_real(uint32_t slot) { return real(slot); }
void host_set_drain_unknown(int on) { set_drain_unknown(on); }

void* host_find_loaded(const char* soname, const char* symbol) {
  ElfView library;
  return soname && symbol && find_library(soname, &library) ? find_symbol(library, symbol) : nullptr;
}

int* host_thread_depth() { return &tl_busy; }

const ShuntHost kHost = {sizeof(ShuntHost), SHUNT_LINK_VERSION, SHUNT_SLOT_COUNT, g_preload_path,
                         host_real,         host_set_hook,      host_find_loaded, host_set_drain_unknown,
                         host_thread_depth};

// The loader keeps a relative LD_PRELOAD path as it was written, and the program may have changed directory
// since: the kernel's list of mappings has the absolute one.
bool absolute_own_path(char* out, size_t size) {
  const char* path = own_path();
  if (path[0] == '/' && strlen(path) < size) {
    strcpy(out, path);
    return true;
  }
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char line[4096 + 128];
  size_t used = 0;
  bool found = false;
  auto here = reinterpret_cast<uintptr_t>(shunt_exports);
  for (;;) {
    ssize_t got = read(file, line + used, sizeof line - 1 - used);
    if (got > 0) used += static_cast<size_t>(got);
    line[used] = 0;
    char* end = static_cast<char*>(memchr(line, '\n', used));
    if (!end) break;
    *end = 0;
    char* dash = nullptr;
    uintptr_t begin = strtoull(line, &dash, 16), limit = *dash == '-' ? strtoull(dash + 1, nullptr, 16) : 0;
    char* slash = strchr(line, '/');
    if (here >= begin && here < limit && slash && strlen(slash) < size) {
      strcpy(out, slash);
      found = true;
      break;
    }
    used -= static_cast<size_t>(end + 1 - line);
    memmove(line, end + 1, used);
  }
  close(file);
  return found;
}

// libshunt_rt.so next to libshunt.so. SHUNT_RT_PATH names another one (tests); ignored under secure
// execution.
void* open_runtime(const char* preload_path) {
  if (const char* path = secure_getenv("SHUNT_RT_PATH"); path && *path)
    return real_dlopen(path, RTLD_NOW | RTLD_LOCAL);
  constexpr char kName[] = "libshunt_rt.so";
  char path[kPathBytes + sizeof kName];
  strcpy(path, preload_path);
  char* slash = strrchr(path, '/');
  strcpy(slash ? slash + 1 : path, kName);
  return real_dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

bool accepts(const ShuntRuntime* table) {
  return table && table->version == SHUNT_LINK_VERSION && table->size >= sizeof(ShuntRuntime);
}

void before_fork() {
  const ShuntRuntime* table = runtime();
  if (state() == kOn && table->fork_prepare) table->fork_prepare();
}

void after_fork_parent() {
  const ShuntRuntime* table = runtime();
  if (state() == kOn && table->fork_parent) table->fork_parent();
}

void after_fork_child() {
  if (stage() != kOn || load(g_exiting)) return;
  bool first = swap_if(g_forked, 0, 1);  // a grandchild is already passing through
  pause_drain_unknown(true);
  disarm_slots();
  const ShuntRuntime* table = runtime();
  if (first && table->fork_child) table->fork_child();
}

State settle(State result) {
  store(g_state, result);
  return result;
}

// Another thread is opening the runtime. Waiting must end: that thread may need the loader's lock, which this
// one may hold (a constructor that calls CUDA). After about two seconds this call goes to the driver
// unhooked.
State wait_for_attach(int64_t mine) {
  for (int i = 0; i < 4000 && stage() == kAttaching; ++i) {
    if (load(g_state) != mine) return settle(kOff);  // forked in the middle of it: that thread is not here
    timespec pause = {0, 500 * 1000};
    nanosleep(&pause, nullptr);
  }
  return stage();
}

}  // namespace

bool enabled() {
  read_switch();
  return load(g_switch) == kEnabled;
}

State state() { return load(g_exiting) || load(g_forked) ? kOff : stage(); }
bool forked() { return load(g_forked) && !load(g_exiting); }
const ShuntRuntime* runtime() { return load(g_runtime); }

State attach() {
  State now = stage();
  if (now == kOn || now == kOff) return now;
  if (tl_busy) return kAttaching;
  if (!enabled() || load(g_exiting)) return settle(kOff);
  ElfView driver;
  if (!driver_library(&driver)) return kIdle;
  ErrnoScope keep_errno;
  BusyScope busy;
  // Loader calls come before the once-section: they are repeatable, and a thread that holds the loader's lock
  // and waits here for another one that wants it would wait for ever.
  char path[kPathBytes];
  void* handle = absolute_own_path(path, sizeof path) ? open_runtime(path) : nullptr;
  auto open =
      handle ? reinterpret_cast<ShuntRuntimeOpen>(real_dlsym(handle, SHUNT_RUNTIME_OPEN_SYMBOL)) : nullptr;
  forget_dlerror();
  int64_t mine = kAttaching | int64_t{own_pid()} << 32;
  if (!swap_if(g_state, int64_t{kIdle}, mine)) return wait_for_attach(mine);
  strcpy(g_preload_path, path);
  const ShuntRuntime* table = open ? open(&kHost) : nullptr;
  forget_dlerror();
  if (!accepts(table)) return settle(kOff);
  store(g_runtime, table);
  __register_atfork(before_fork, after_fork_parent, after_fork_child, &__dso_handle);
  arm_slots();
  return settle(kOn);
}

void rearm() {
  store(g_forked, 0);
  pause_drain_unknown(false);
  arm_slots();
}

}  // namespace shunt::interpose

// The only constructor. Everything else waits until CUDA is seen.
__attribute__((constructor)) static void shunt_start() { shunt::interpose::enabled(); }

__attribute__((destructor)) static void shunt_exit() {
  using namespace shunt::interpose;
  const ShuntRuntime* table = state() == kOn ? runtime() : nullptr;
  // The flag first: from here on look-ups answer with the real functions and nobody starts the runtime any
  // more.
  store(g_exiting, 1);
  if (table && table->at_exit) table->at_exit();
  // Only now, so that no call of another thread can overtake work the runtime was still holding.
  if (table) {
    pause_drain_unknown(true);
    disarm_slots();
  }
}
