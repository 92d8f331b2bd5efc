// Kernels of the driver tests.
#include <cooperative_groups.h>
#include <stdio.h>

extern "C" {
__device__ int counter = 5;
__device__ int table[4] = {10, 20, 30, 40};
__device__ int* pointer_to_table = &table[2];
__constant__ float scale = 2.5f;
__managed__ int shared_with_host = 3;

__global__ void vadd(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void set_value(int* p, int value) { *p = value; }
__global__ void add_value(int* p, int value) { *p += value; }
__global__ void copy_value(int* to, const int* from) { *to = *from; }
__global__ void bump_globals(int* out, float* f) {
  out[0] = ++counter;
  out[1] = *pointer_to_table;
  out[2] = ++shared_with_host;
  *f = scale;
}
__global__ void out_of_bounds(int* p, long long offset) { p[offset] = 1; }
__global__ void misaligned(char* p) { *(int*)(p + 1) = 7; }
__global__ void trap_now() { asm volatile("trap;"); }
__global__ void say(int k) { printf("line %d\n", k); }
__global__ void wait_flag(volatile int* flag, int* seen) {
  while (*flag == 0) {
  }
  *seen = *flag;
}
__global__ void raise_flag(volatile int* flag, int value) {
  *flag = value;
  __threadfence_system();
}
__global__ void dynamic_shared(int* out, int n) {
  extern __shared__ int buffer[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) buffer[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += buffer[i];
    *out = sum;
  }
}
__global__ void __launch_bounds__(128) bounded(int* out) { out[threadIdx.x] = threadIdx.x; }
__global__ void grid_sum(int* cells, int* out) {
  cells[blockIdx.x] = blockIdx.x + 1;
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += cells[i];
    *out = sum;
  }
}
struct Mixed {
  char c;
  double d;
  int i[3];
};
__global__ void parameters(Mixed m, char c, short s, float4 f, double* out) {
  out[0] = m.c;
  out[1] = m.d;
  out[2] = m.i[0] + m.i[1] + m.i[2];
  out[3] = c;
  out[4] = s;
  out[5] = f.x + f.y + f.z + f.w;
}
__global__ void burn(float* p, int rounds) {
  float x = threadIdx.x;
  for (int i = 0; i < rounds; ++i) x = x * 1.0001f + 0.5f;
  p[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
}
