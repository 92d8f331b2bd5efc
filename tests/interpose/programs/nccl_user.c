/* argv[1]: linked (calls what it links), lookup (dlopen + dlsym). */
#include "probe.h"
int ncclGetVersion(int*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int pncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
const char* ncclGetErrorString(int);
int cuInit(unsigned);
int main(int argc, char** argv) {
  int version = 0;
  typedef int (*Reduce)(const void*, void*, size_t, int, int, void*, void*);
  if (argc > 1 && !strcmp(argv[1], "lookup")) {
    void* library = dlopen("libnccl.so.2", RTLD_NOW);
    Reduce reduce = (Reduce)dlsym(library, "ncclAllReduce");
    printf("before init %d\n", reduce((void*)1, (void*)2, 3, 4, 5, (void*)6, (void*)7));
    printf("init %d\n", cuInit(0));
    reduce = (Reduce)dlsym(library, "ncclAllReduce");
    printf("reduce %d\n", reduce((void*)1, (void*)2, 3, 4, 5, (void*)6, (void*)7));
  } else {
    int code = ncclGetVersion(&version);
    printf("version %d %d %s\n", code, version, ncclGetErrorString(0));
    printf("init %d\n", cuInit(0));
    printf("reduce %d twin %d\n", ncclAllReduce((void*)1, (void*)2, 3, 4, 5, (void*)6, (void*)7),
           pncclAllReduce((void*)1, (void*)2, 3, 4, 5, (void*)6, (void*)7));
  }
  report("ncclAllReduce");
  report("pncclAllReduce");
  return 0;
}
