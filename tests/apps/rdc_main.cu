// Relocatable device code: the kernel here calls functions and uses variables of rdc_part.cu, so the driver
// (or nvlink) must link two pieces.
#include "check.h"
#include "rdc_part.h"

__device__ int from_main(int v) { return v * 3 + 1; }

__global__ void call(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = part_transform(in[i]) + part_table[i & 7];
}

int main() {
  Report report;
  const int n = 1000;
  std::vector<int> in(n), want(n);
  for (int i = 0; i < n; ++i) {
    in[i] = i - 500;
    want[i] = (in[i] & 1 ? (in[i] + 9) * 3 + 1 : in[i] / 2) + (i & 7) * 11;
  }
  int* d_in = device_copy(in);
  int* d_out = device_array<int>(n);
  call<<<8, 128>>>(d_in, d_out, n);
  CUDA(cudaGetLastError());
  std::vector<int> got = host_copy(d_out, n);
  report.check("function and variable of the other file", same(got, want), digest(got));
  part_double(d_out, n);
  CUDA(cudaGetLastError());
  got = host_copy(d_out, n);
  for (int& v : want) v *= 2;
  report.check("kernel of the other file", same(got, want), digest(got));
  return report.finish();
}
