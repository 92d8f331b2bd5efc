/* A C program that uses the runtime API alone: no kernel, no C++, no fat binary. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  enum { n = 4096 };
  int count = 0, i, ok = 1;
  int host[n], back[n];
  int* device;
  struct cudaDeviceProp properties;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1) return 1;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return 1;
  ok &= properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024 && strlen(properties.name) > 0;
  ok &= properties.unifiedAddressing == 1 && properties.totalGlobalMem > 1000000000u;
  for (i = 0; i < n; ++i) host[i] = i * i;
  if (cudaMalloc((void**)&device, sizeof host) != cudaSuccess) return 1;
  if (cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice) != cudaSuccess) return 1;
  if (cudaMemset(device + 10, 0, 10 * sizeof(int)) != cudaSuccess) return 1;
  if (cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (i = 0; i < n; ++i) ok &= back[i] == (i >= 10 && i < 20 ? 0 : i * i);
  printf("copies: %s\n", ok ? "ok" : "WRONG");
  ok &= cudaMemcpy(NULL, host, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue;
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  cudaFree(device);
  printf("%s\n", ok ? "PASSED" : "FAILED");
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
