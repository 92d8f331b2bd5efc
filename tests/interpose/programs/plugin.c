/* A plug-in linked to the driver and opened RTLD_LOCAL: its calls and its own RTLD_DEFAULT look-ups. */
#define _GNU_SOURCE
#include "probe.h"
int cuInit(unsigned);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**);
int only_here(void) { return 42; }
int plugin_run(void) {
  printf("plugin init %d launch %d\n", cuInit(0), launch(cuLaunchKernel));
  /* Visible to this plug-in only: found by RTLD_DEFAULT because the loader knows who asks. */
  printf("plugin default %s\n", dlsym(RTLD_DEFAULT, "only_here") ? "found" : "null");
  report("cuInit");
  report("cuLaunchKernel");
  return 0;
}
