#define _GNU_SOURCE
#include "probe.h"
int next_value(void);
int next_versioned(void);
int main(void) {
  printf("next %d %d\n", next_value(), next_versioned());
  printf("default %s\n", dlsym(RTLD_DEFAULT, "next_value") == (void*)&next_value ? "first" : "other");
  return 0;
}
