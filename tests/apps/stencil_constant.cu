// Two-dimensional stencil with its weights in constant memory, a __device__ counter, and symbol copies both
// ways.
#include "check.h"

constexpr int kRadius = 3, kSide = 2 * kRadius + 1;
__constant__ int weight[kSide][kSide];
__device__ unsigned long long cells;
__device__ int bias[4] = {5, -6, 7, -8};

__global__ void stencil(const int* in, int* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int sum = bias[(x + y) & 3];
  for (int dy = -kRadius; dy <= kRadius; ++dy) {
    for (int dx = -kRadius; dx <= kRadius; ++dx) {
      const int sx = min(max(x + dx, 0), width - 1), sy = min(max(y + dy, 0), height - 1);
      sum += weight[dy + kRadius][dx + kRadius] * in[sy * width + sx];
    }
  }
  out[y * width + x] = sum;
  atomicAdd(&cells, 1ull);
}

int main() {
  const int width = 101, height = 63;
  Random random(8);
  int w[kSide][kSide], new_bias[2] = {100, 200}, b[4] = {5, 100, 200, -8};
  for (auto& row : w) {
    for (int& v : row) v = static_cast<int>(random.next() % 19) - 9;
  }
  std::vector<int> in(width * height), expected(width * height);
  for (int& v : in) v = static_cast<int>(random.next() % 1000);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      int sum = b[(x + y) & 3];
      for (int dy = -kRadius; dy <= kRadius; ++dy) {
        for (int dx = -kRadius; dx <= kRadius; ++dx) {
          const int sx = x + dx < 0 ? 0 : x + dx >= width ? width - 1 : x + dx;
          const int sy = y + dy < 0 ? 0 : y + dy >= height ? height - 1 : y + dy;
          sum += w[dy + kRadius][dx + kRadius] * in[sy * width + sx];
        }
      }
      expected[y * width + x] = sum;
    }
  }
  CUDA(cudaMemcpyToSymbol(weight, w, sizeof w));
  CUDA(cudaMemcpyToSymbol(bias, new_bias, sizeof new_bias, sizeof(int)));  // the middle two entries
  int* d_in = device_copy(in);
  int* d_out = device_array<int>(width * height);
  stencil<<<dim3(13, 8), dim3(8, 8)>>>(d_in, d_out, width, height);
  CUDA(cudaGetLastError());
  const std::vector<int> out = host_copy(d_out, width * height);
  unsigned long long count = 0;
  CUDA(cudaMemcpyFromSymbol(&count, cells, sizeof count));
  size_t size = 0;
  void* address = nullptr;
  CUDA(cudaGetSymbolSize(&size, weight));
  CUDA(cudaGetSymbolAddress(&address, bias));
  int back[4];
  CUDA(cudaMemcpy(back, address, sizeof back, cudaMemcpyDeviceToHost));
  Report report;
  report.check("stencil", same(out, expected), digest(out));
  report.check("counter", count == static_cast<unsigned long long>(width) * height, count);
  report.check("symbols", size == sizeof w && std::memcmp(back, b, sizeof b) == 0);
  return report.finish();
}
