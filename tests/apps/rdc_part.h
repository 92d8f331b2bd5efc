#pragma once
extern __device__ int part_table[8];
__device__ int part_transform(int v);
__device__ int from_main(int v);
void part_double(int* data, int n);
