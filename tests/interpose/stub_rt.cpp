// A stand-in libshunt_rt.so: hooks every entry point that is not harmless with a typed forward that counts.
// STUB_RT_DRAIN=1 asks for draining trampolines, STUB_RT_DECLINE=1 refuses to start, STUB_RT_SLEEP_MS delays
// the opening, STUB_RT_FORWARD=1 hooks without counting, STUB_RT_NESTED=1 makes it look things up while it
// opens, STUB_RT_HARMLESS=1 hooks the harmless ones too, STUB_RT_LOG=path appends one letter per life-cycle
// call.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/link/generated/signatures.h"
#if __has_include(<nccl.h>)
#include "runtime/link/generated/signatures_nccl.h"
#define STUB_RT_NCCL 1
#endif
#include "runtime/link/runtime_link.h"

namespace {
const ShuntHost* g_host;
long g_calls[SHUNT_SLOT_COUNT];
long g_drained, g_opened;
void* g_last_drained;
constexpr const char* kNames[] = {
#define SHUNT_SLOT_INFO(symbol, base, version, flag, kind, library) #symbol,
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO
};

template <ShuntSlot slot, class F>
struct Hook;
template <ShuntSlot slot, class R, class... A>
struct Hook<slot, R (*)(A...)> {
  static R call(A... arguments) {
    __atomic_add_fetch(&g_calls[slot], 1, __ATOMIC_RELAXED);
    return reinterpret_cast<R (*)(A...)>(g_host->real(slot))(arguments...);
  }
};
// What a runtime with every engine off does: one load, then the real function. For the bench.
void* g_chain;
void* g_real[SHUNT_SLOT_COUNT];
template <ShuntSlot slot, class F>
struct Forward;
template <ShuntSlot slot, class R, class... A>
struct Forward<slot, R (*)(A...)> {
  static R call(A... arguments) {
    if (__atomic_load_n(&g_chain, __ATOMIC_ACQUIRE)) return Hook<slot, R (*)(A...)>::call(arguments...);
    return reinterpret_cast<R (*)(A...)>(g_real[slot])(arguments...);
  }
};

bool flag(const char* name);

template <ShuntSlot slot>
void install() {
  using Signature = typename shunt::link::SlotSignature<slot>::type;
  static const bool forward = flag("STUB_RT_FORWARD");
  if (forward) {
    g_real[slot] = g_host->real(slot);
    g_host->set_hook(slot, reinterpret_cast<void*>(&Forward<slot, Signature>::call));
    return;
  }
  g_host->set_hook(slot, reinterpret_cast<void*>(&Hook<slot, Signature>::call));
}

constexpr bool same(const char* a, const char* b) {
  for (; *a && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}

bool flag(const char* name) {
  const char* value = getenv(name);
  return value && *value == '1';
}

void log_letter(const char* letter) {
  const char* path = getenv("STUB_RT_LOG");
  int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  if (file < 0) return;
  if (write(file, letter, 1) != 1) abort();
  close(file);
}

void drain(void* real) {
  __atomic_add_fetch(&g_drained, 1, __ATOMIC_RELAXED);
  g_last_drained = real;
  // A real drain launches kernels: spoil every argument register the trampoline must have saved.
  asm volatile(
      "xorl %%edi,%%edi; xorl %%esi,%%esi; xorl %%edx,%%edx; xorl %%ecx,%%ecx; xorl %%r8d,%%r8d; xorl "
      "%%r9d,%%r9d;"
      "pxor %%xmm0,%%xmm0; pxor %%xmm1,%%xmm1; pxor %%xmm7,%%xmm7" ::
          : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "xmm0", "xmm1", "xmm7");
}

const ShuntRuntime kTable = {sizeof(ShuntRuntime),    SHUNT_LINK_VERSION,      drain,
                             [] { log_letter("p"); }, [] { log_letter("P"); }, [] { log_letter("c"); },
                             [] { log_letter("x"); }};
}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT long stub_rt_calls(const char* symbol) {
  for (unsigned i = 0; i < SHUNT_SLOT_COUNT; ++i)
    if (!strcmp(kNames[i], symbol)) return g_calls[i];
  return -1;
}
EXPORT long stub_rt_drained() { return g_drained; }
EXPORT void* stub_rt_last_drained() { return g_last_drained; }
EXPORT long stub_rt_opened() { return g_opened; }
EXPORT const ShuntHost* stub_rt_host() { return g_host; }
// A look-up in the name of the runtime.
EXPORT void* stub_rt_lookup(void* handle, const char* name) {
  int* depth = g_host->thread_depth();
  ++*depth;
  void* found = dlsym(handle, name);
  --*depth;
  return found;
}

EXPORT const ShuntRuntime* shunt_runtime_open(const ShuntHost* host) {
  __atomic_add_fetch(&g_opened, 1, __ATOMIC_RELAXED);
  log_letter("o");
  if (flag("STUB_RT_DECLINE")) return nullptr;
  if (const char* sleep_ms = getenv("STUB_RT_SLEEP_MS")) {
    timespec pause = {0, atol(sleep_ms) * 1000000};
    nanosleep(&pause, nullptr);
  }
  if (host->slot_count != SHUNT_SLOT_COUNT) return nullptr;
  g_host = host;
  if (flag("STUB_RT_NESTED")) {
    // Look-ups of the runtime itself are answered with the real functions and do not open it a second time.
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void* found = driver ? dlsym(driver, "cuInit") : nullptr;
    bool right = found && found == host->real(SHUNT_SLOT_cuInit) &&
                 found == host->find_loaded("libcuda.so.1", "cuInit") &&
                 !host->find_loaded("libcuda.so.1", "cuNone") && !host->find_loaded("libnone.so", "cuInit");
    fprintf(stderr, "nested %s\n", right ? "real" : "wrong");
  }
  bool harmless = flag("STUB_RT_HARMLESS");
#define SHUNT_SLOT_INFO(symbol, base, version, flag_, kind, library) \
  if constexpr (same(#library, "cuda"))                              \
    if (!same(#kind, "harmless") || harmless) install<SHUNT_SLOT_##symbol>();
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO
#ifdef STUB_RT_NCCL
  install<SHUNT_SLOT_ncclAllReduce>();
  install<SHUNT_SLOT_pncclAllReduce>();
#endif
  if (flag("STUB_RT_DRAIN")) host->set_drain_unknown(1);
  return &kTable;
}
