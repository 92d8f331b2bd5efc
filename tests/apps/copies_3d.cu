// Three-dimensional allocations and copies with offsets, array copies, asynchronous and symbol forms, sets of
// every width.
#include "check.h"

__device__ int constants[16];

__global__ void bump(cudaPitchedPtr p, int width, int height, int depth) {
  const int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
  if (x >= width || y >= height || z >= depth) return;
  int* row =
      reinterpret_cast<int*>(static_cast<char*>(p.ptr) + (static_cast<size_t>(z) * p.ysize + y) * p.pitch);
  row[x] += constants[(x + y + z) & 15];
}

int main() {
  Report report;
  const int width = 45, height = 13, depth = 6, n = width * height * depth;
  Random random(40);
  std::vector<int> host(n), want(n), back(n, 0);
  for (int& v : host) v = static_cast<int>(random.next() & 0xffff);
  int values[16];
  for (int i = 0; i < 16; ++i) values[i] = 1000 * i + 7;
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaMemcpyToSymbolAsync(constants, values, sizeof values, 0, cudaMemcpyHostToDevice, stream));

  const cudaExtent extent = make_cudaExtent(width * sizeof(int), height, depth);
  cudaPitchedPtr volume;
  CUDA(cudaMalloc3D(&volume, extent));
  report.check("pitched volume", volume.pitch >= width * sizeof(int) && volume.ysize == height);
  CUDA(cudaMemset3DAsync(volume, 0, extent, stream));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(host.data(), width * sizeof(int), width, height);
  copy.dstPtr = volume;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CUDA(cudaMemcpy3DAsync(&copy, stream));
  bump<<<dim3(height, depth), 64, 0, stream>>>(volume, width, height, depth);
  CUDA(cudaGetLastError());
  copy.srcPtr = volume;
  copy.dstPtr = make_cudaPitchedPtr(back.data(), width * sizeof(int), width, height);
  copy.kind = cudaMemcpyDeviceToHost;
  CUDA(cudaMemcpy3DAsync(&copy, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int z = 0; z < depth; ++z) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int i = (z * height + y) * width + x;
        want[i] = host[i] + values[(x + y + z) & 15];
      }
    }
  }
  report.check("whole volume", same(back, want), digest(back));

  // A box of 10 x 5 x 2 from (20, 4, 3) to the origin of a smaller host volume.
  std::vector<int> part(10 * 5 * 2, 0), want_part;
  copy.srcPos = make_cudaPos(20 * sizeof(int), 4, 3);
  copy.dstPtr = make_cudaPitchedPtr(part.data(), 10 * sizeof(int), 10, 5);
  copy.extent = make_cudaExtent(10 * sizeof(int), 5, 2);
  CUDA(cudaMemcpy3D(&copy));
  for (int z = 3; z < 5; ++z) {
    for (int y = 4; y < 9; ++y) {
      for (int x = 20; x < 30; ++x) want_part.push_back(want[(z * height + y) * width + x]);
    }
  }
  report.check("box", same(part, want_part), digest(part));

  // Through a CUDA array, device to device, and back in two dimensions.
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  CUDA(cudaMallocArray(&array, &format, width, height));
  CUDA(cudaMemcpy2DToArrayAsync(array, 0, 0, volume.ptr, volume.pitch, width * sizeof(int), height,
                                cudaMemcpyDeviceToDevice, stream));
  std::vector<int> slice(width * height);
  CUDA(cudaMemcpy2DFromArrayAsync(slice.data(), width * sizeof(int), array, 0, 0, width * sizeof(int), height,
                                  cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
  report.check("array", std::memcmp(slice.data(), want.data(), slice.size() * sizeof(int)) == 0,
               digest(slice));

  // A set of part of the volume touches nothing else.
  CUDA(cudaMemset2D(static_cast<char*>(volume.ptr) + 3 * volume.pitch + 8, volume.pitch, 0x7f, 12, 4));
  copy = {};
  copy.srcPtr = volume;
  copy.dstPtr = make_cudaPitchedPtr(back.data(), width * sizeof(int), width, height);
  copy.extent = extent;
  copy.kind = cudaMemcpyDefault;
  CUDA(cudaMemcpy3D(&copy));
  for (int y = 3; y < 7; ++y) {
    for (int x = 2; x < 5; ++x) want[y * width + x] = 0x7f7f7f7f;
  }
  report.check("partial set", same(back, want), digest(back));
  report.check("pitch too small is refused",
               cudaMemcpy2D(back.data(), 4, volume.ptr, volume.pitch, 16, 2, cudaMemcpyDeviceToHost) ==
                   cudaErrorInvalidPitchValue);
  cudaGetLastError();
  CUDA(cudaFreeArray(array));
  CUDA(cudaFree(volume.ptr));
  CUDA(cudaStreamDestroy(stream));
  return report.finish();
}
