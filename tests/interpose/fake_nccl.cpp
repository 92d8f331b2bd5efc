// A stand-in libnccl.so.2 with three entry points that check their arguments.
#include <stddef.h>
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int ncclGetVersion(int* version) { return *version = 22809, 0; }
EXPORT int ncclAllReduce(const void* send, void* receive, size_t count, int type, int op, void* comm,
                         void* stream) {
  bool right = send == reinterpret_cast<void*>(1) && receive == reinterpret_cast<void*>(2) && count == 3 &&
               type == 4 && op == 5 && comm == reinterpret_cast<void*>(6) &&
               stream == reinterpret_cast<void*>(7);
  return right ? 3001 : 1;
}
EXPORT int pncclAllReduce(const void* s, void* r, size_t n, int t, int o, void* c, void* st) {
  return ncclAllReduce(s, r, n, t, o, c, st) == 3001 ? 3002 : 1;
}
EXPORT const char* ncclGetErrorString(int) { return "fake"; }
