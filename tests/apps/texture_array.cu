// CUDA arrays: bilinear filtering at exactly representable weights, normalised coordinates with wrapping,
// surface writes.
#include "check.h"

__global__ void filter(cudaTextureObject_t t, float* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  // Half-way between four texels: every weight is a quarter.
  if (x < width - 1 && y < height - 1) out[y * width + x] = tex2D<float>(t, x + 1.0f, y + 1.0f);
}
__global__ void wrap(cudaTextureObject_t t, float* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < width && y < height)
    out[y * width + x] = tex2D<float>(t, (x + 0.5f) / width + 1.0f, (y + 0.5f) / height - 2.0f);
}
__global__ void stamp(cudaSurfaceObject_t s, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width || y >= height) return;
  const float old = surf2Dread<float>(s, x * sizeof(float), y);
  surf2Dwrite(old * 2.0f + static_cast<float>(y), s, x * sizeof(float), y);
}

int main() {
  Report report;
  const int width = 64, height = 32;
  std::vector<float> image(width * height), want(width * height, 0.0f);
  Random random(31);
  for (float& f : image) f = static_cast<float>(random.next() % 256);  // quarter sums are exact
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CUDA(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
  CUDA(cudaMemcpy2DToArray(array, 0, 0, image.data(), width * sizeof(float), width * sizeof(float), height,
                           cudaMemcpyHostToDevice));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc texture{};
  texture.addressMode[0] = texture.addressMode[1] = cudaAddressModeClamp;
  texture.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t filtered, wrapped;
  CUDA(cudaCreateTextureObject(&filtered, &resource, &texture, nullptr));
  texture.addressMode[0] = texture.addressMode[1] = cudaAddressModeWrap;
  texture.filterMode = cudaFilterModePoint;
  texture.normalizedCoords = 1;
  CUDA(cudaCreateTextureObject(&wrapped, &resource, &texture, nullptr));

  float* out = device_array<float>(width * height);
  CUDA(cudaMemset(out, 0, width * height * sizeof(float)));
  filter<<<dim3(2, height), 32>>>(filtered, out, width, height);
  for (int y = 0; y < height - 1; ++y) {
    for (int x = 0; x < width - 1; ++x) {
      const float* p = &image[y * width + x];
      want[y * width + x] = (p[0] + p[1] + p[width] + p[width + 1]) * 0.25f;
    }
  }
  std::vector<float> got = host_copy(out, width * height);
  report.check("bilinear", same(got, want), digest(got));

  wrap<<<dim3(2, height), 32>>>(wrapped, out, width, height);
  got = host_copy(out, width * height);
  report.check("wrapped", same(got, image), digest(got));

  cudaSurfaceObject_t surface;
  CUDA(cudaCreateSurfaceObject(&surface, &resource));
  stamp<<<dim3(2, height), 32>>>(surface, width, height);
  CUDA(cudaMemcpy2DFromArray(got.data(), width * sizeof(float), array, 0, 0, width * sizeof(float), height,
                             cudaMemcpyDeviceToHost));
  for (int i = 0; i < width * height; ++i) want[i] = image[i] * 2.0f + static_cast<float>(i / width);
  report.check("surface", same(got, want), digest(got));
  CUDA(cudaDestroyTextureObject(filtered));
  CUDA(cudaDestroyTextureObject(wrapped));
  CUDA(cudaDestroySurfaceObject(surface));
  CUDA(cudaFreeArray(array));
  return report.finish();
}
