/* The one C table between libshunt.so (interpose/) and libshunt_rt.so (runtime/). Plain C, versioned by size.
 *
 * libshunt.so owns one slot per (driver function, version, per-thread-stream flag): see generated/slots.h. A
 * slot holds the function the application's call ends in: the real entry point, or a hook the runtime
 * installed. The exported symbol is `jmp *slot`, and look-ups of a hooked function answer with that symbol
 * (so pointers a program stored follow the slot when it changes: fork, exit). A call nobody asked for costs
 * nothing, and with the runtime absent every slot simply is the real function (docs/adr/0001).
 *
 * Set hooks inside shunt_runtime_open: a function without a hook is looked up as the driver's own address,
 * for good. A hook set for a function the driver lacks stays out of effect. cuGetProcAddress and _v2 are
 * libshunt.so's own. */
#ifndef SHUNT_RUNTIME_LINK_H
#define SHUNT_RUNTIME_LINK_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define SHUNT_LINK_VERSION 1u

typedef struct ShuntHost {
  uint32_t size, version;
  uint32_t slot_count;                             /* SHUNT_SLOT_COUNT the interposer was built with */
  const char* preload_path;                        /* path of libshunt.so */
  void* (*real)(uint32_t slot);                    /* real entry point; NULL when the driver lacks it */
  void (*set_hook)(uint32_t slot, void* function); /* NULL: back to the real one. Any thread, atomic */
  void* (*find_loaded)(const char* soname,
                       const char* symbol); /* symbol of a library already loaded; NULL otherwise */
  /* Routes entry points the spec does not know through the draining trampoline (1) or straight to the driver
   * (0). What was looked up while it was 1 keeps its trampoline, which follows later changes; what was looked
   * up while it was 0 does not. */
  void (*set_drain_unknown)(int on);
  /* The calling thread's depth of runtime-made work; the address stays valid for the thread's life. While it
   * is not zero the thread's look-ups (of a library the runtime loads and calls) are answered with the
   * driver's own functions. */
  int* (*thread_depth)(void);
} ShuntHost;

typedef struct ShuntRuntime {
  uint32_t size, version;
  void (*drain_unknown)(void* real); /* called by the trampoline before an unknown entry point */
  void (*fork_prepare)(void);
  void (*fork_parent)(void);
  /* Hooks are already back to the real functions. They apply again when the child calls cuInit, whose hook
   * then runs. */
  void (*fork_child)(void);
  void (*at_exit)(void); /* once; hooks still apply until it returns. Not in such a child */
} ShuntRuntime;

/* Exported by libshunt_rt.so. Called once, on the first look-up or exported driver call, before any driver
 * call was made. NULL: stay pass-through. Must not call the driver itself: placement works from NVML and the
 * environment until cuInit. */
typedef const ShuntRuntime* (*ShuntRuntimeOpen)(const ShuntHost* host);
#define SHUNT_RUNTIME_OPEN_SYMBOL "shunt_runtime_open"
#ifdef __cplusplus
}
#endif
#endif
