#include "probe.h"
int main(int argc, char** argv) {
  void* plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
  if (!plugin) return printf("no plugin: %s\n", dlerror()), 1;
  printf("host default %s\n", dlsym(NULL, "only_here") ? "found" : "null");
  ((int (*)(void))dlsym(plugin, "plugin_run"))();
  dlclose(plugin);
  void* kept = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  fprintf(stderr, "driver %s\n", kept ? "kept" : "gone");
  if (kept) dlclose(kept);
  /* The driver came with the plug-in; what was looked up must not dangle. */
  plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
  ((int (*)(void))dlsym(plugin, "plugin_run"))();
  return 0;
}
