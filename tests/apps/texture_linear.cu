// Texture objects over linear memory: raw and normalised element reads, out-of-range fetches, and a pitched
// 2D view.
#include "check.h"

__global__ void fetch(cudaTextureObject_t floats, cudaTextureObject_t vectors, cudaTextureObject_t bytes,
                      float4* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float a = tex1Dfetch<float>(floats, n - 1 - i);
  const int4 v = tex1Dfetch<int4>(vectors, i / 4);
  const float u = tex1Dfetch<float>(bytes, i);
  out[i] = make_float4(a, static_cast<float>(v.x + v.w), u, tex1Dfetch<float>(floats, n + i));
}
__global__ void sample(cudaTextureObject_t pitched, float* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < width && y < height) out[y * width + x] = tex2D<float>(pitched, x + 0.5f - 3.0f, y + 0.5f + 2.0f);
}

cudaTextureObject_t linear(void* data, size_t bytes, cudaChannelFormatDesc format, cudaTextureReadMode mode) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = format;
  resource.res.linear.sizeInBytes = bytes;
  cudaTextureDesc texture{};
  texture.readMode = mode;
  cudaTextureObject_t object = 0;
  CUDA(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
  return object;
}

int main() {
  Report report;
  const int n = 1024;
  Random random(30);
  std::vector<float> floats(n);
  std::vector<int4> vectors(n / 4);
  std::vector<unsigned char> bytes(n);
  for (float& f : floats) f = random.unit();
  for (int4& v : vectors) v = make_int4(random.next() % 100, 1, 2, random.next() % 100);
  for (unsigned char& b : bytes) b = static_cast<unsigned char>(random.next());
  std::vector<float4> expected(n);
  for (int i = 0; i < n; ++i) {
    expected[i] = make_float4(floats[n - 1 - i], static_cast<float>(vectors[i / 4].x + vectors[i / 4].w),
                              static_cast<float>(bytes[i]) / 255.0f, 0.0f);
  }
  const cudaTextureObject_t tf =
      linear(device_copy(floats), n * sizeof(float), cudaCreateChannelDesc<float>(), cudaReadModeElementType);
  const cudaTextureObject_t tv =
      linear(device_copy(vectors), n * sizeof(int), cudaCreateChannelDesc<int4>(), cudaReadModeElementType);
  const cudaTextureObject_t tb =
      linear(device_copy(bytes), n, cudaCreateChannelDesc<unsigned char>(), cudaReadModeNormalizedFloat);
  float4* out = device_array<float4>(n);
  fetch<<<n / 128, 128>>>(tf, tv, tb, out, n);
  const std::vector<float4> got = host_copy(out, n);
  report.check("linear memory", same(got, expected), digest(got));

  const int width = 70, height = 33;
  std::vector<float> image(width * height), want(width * height);
  for (float& f : image) f = random.unit();
  float* pitched;
  size_t pitch;
  CUDA(cudaMallocPitch(&pitched, &pitch, width * sizeof(float), height));
  CUDA(cudaMemcpy2D(pitched, pitch, image.data(), width * sizeof(float), width * sizeof(float), height,
                    cudaMemcpyHostToDevice));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D = {pitched, cudaCreateChannelDesc<float>(), static_cast<size_t>(width),
                          static_cast<size_t>(height), pitch};
  cudaTextureDesc texture{};
  texture.addressMode[0] = cudaAddressModeClamp;
  texture.addressMode[1] = cudaAddressModeBorder;
  texture.filterMode = cudaFilterModePoint;
  cudaTextureObject_t object;
  CUDA(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
  float* sampled = device_array<float>(width * height);
  sample<<<dim3(3, height), 32>>>(object, sampled, width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int sx = x < 3 ? 0 : x - 3, sy = y + 2;
      want[y * width + x] = sy < height ? image[sy * width + sx] : 0.0f;
    }
  }
  const std::vector<float> got_image = host_copy(sampled, width * height);
  report.check("pitched image", same(got_image, want), digest(got_image));
  for (cudaTextureObject_t t : {tf, tv, tb, object}) CUDA(cudaDestroyTextureObject(t));
  return report.finish();
}
