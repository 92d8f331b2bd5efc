/* Calls through symbols that nothing but the preload defines. Without it they are null. */
#include "probe.h"
#pragma weak cuInit
int cuInit(unsigned);
#pragma weak ncclGetErrorString
const char* ncclGetErrorString(int);
#pragma weak ncclGetVersion
int ncclGetVersion(int*);
int main(void) {
  int version = 0;
  if (cuInit) printf("cuInit %d\n", cuInit(0));
  if (ncclGetVersion) printf("nccl %d %s\n", ncclGetVersion(&version), ncclGetErrorString(0));
  printf("done\n");
  return 0;
}
