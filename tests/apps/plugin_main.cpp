// A program that loads kernels at run time: opens a shared library with device code, runs it, closes it, and
// does so again. Not linked to CUDA itself.
#include <dlfcn.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  (void)argc;
  std::string path = argv[0];
  path = path.substr(0, path.rfind('/') + 1) + "libplugin.so";
  for (int round = 0; round < 3; ++round) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      std::printf("%s\n", dlerror());
      return 1;
    }
    auto* run = reinterpret_cast<int (*)(int)>(dlsym(library, "plugin_run"));
    if (!run || run(round) != 0) {
      std::printf("FAILED\n");
      return 1;
    }
    if (dlclose(library) != 0) return 1;
  }
  std::printf("PASSED\n");
  return 0;
}
