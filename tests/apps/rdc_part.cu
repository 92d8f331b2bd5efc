// The second half of the program rdc_main.cu.
#include "rdc_part.h"

__device__ int part_table[8] = {0, 11, 22, 33, 44, 55, 66, 77};

__device__ int part_transform(int v) { return v & 1 ? from_main(v + 9) : v / 2; }

__global__ void twice(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= 2;
}

void part_double(int* data, int n) { twice<<<(n + 63) / 64, 64>>>(data, n); }
