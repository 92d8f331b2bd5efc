// A library with a kernel and a variable of its own, loaded and unloaded by basics_program while it runs.
#include <cuda_runtime.h>

__device__ int plugin_state = 20;
__managed__ int plugin_managed = 1;
__global__ void plugin_kernel(int* out) {
  plugin_state += 1;
  plugin_managed += 1;
  *out = plugin_state;
}

extern "C" int plugin_run() {
  int* device = nullptr;
  int value = -1;
  if (cudaMalloc(&device, sizeof(int)) != cudaSuccess) return -2;
  plugin_kernel<<<1, 1>>>(device);
  if (cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess) return -3;
  cudaFree(device);
  return value * 100 + plugin_managed;
}
