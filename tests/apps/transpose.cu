// Matrix transpose through padded shared memory, in pitched allocations with two-dimensional copies.
#include "check.h"

__global__ void transpose(const double* in, size_t in_pitch, double* out, size_t out_pitch, int width,
                          int height) {
  __shared__ double tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {
    if (x < width && y + i < height) {
      tile[threadIdx.y + i][threadIdx.x] =
          reinterpret_cast<const double*>(reinterpret_cast<const char*>(in) + (y + i) * in_pitch)[x];
    }
  }
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {
    if (x < height && y + i < width) {
      reinterpret_cast<double*>(reinterpret_cast<char*>(out) + (y + i) * out_pitch)[x] =
          tile[threadIdx.x][threadIdx.y + i];
    }
  }
}

int main() {
  const int width = 150, height = 77;
  Random random(7);
  std::vector<double> in(width * height), out(width * height), expected(width * height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      in[y * width + x] = random.unit() + y;
      expected[x * height + y] = in[y * width + x];
    }
  }
  double *d_in, *d_out;
  size_t in_pitch, out_pitch;
  CUDA(cudaMallocPitch(&d_in, &in_pitch, width * sizeof(double), height));
  CUDA(cudaMallocPitch(&d_out, &out_pitch, height * sizeof(double), width));
  CUDA(cudaMemset2D(d_out, out_pitch, 0xff, height * sizeof(double), width));
  CUDA(cudaMemcpy2D(d_in, in_pitch, in.data(), width * sizeof(double), width * sizeof(double), height,
                    cudaMemcpyHostToDevice));
  transpose<<<dim3((width + 31) / 32, (height + 31) / 32), dim3(32, 8)>>>(d_in, in_pitch, d_out, out_pitch,
                                                                          width, height);
  CUDA(cudaMemcpy2D(out.data(), height * sizeof(double), d_out, out_pitch, height * sizeof(double), width,
                    cudaMemcpyDeviceToHost));
  Report report;
  report.check("pitch holds a row", in_pitch >= width * sizeof(double) && in_pitch % 32 == 0);
  report.check("transpose", same(out, expected), digest(out));
  CUDA(cudaFree(d_in));
  CUDA(cudaFree(d_out));
  return report.finish();
}
