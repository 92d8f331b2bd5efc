// Arrays as memory, textures and surfaces over them, textures over linear memory.
#include <cstdint>
#include <vector>

#include "program_check.h"

__global__ void sample(cudaTextureObject_t texture, float* out, int width) {
  const int i = threadIdx.x;
  out[i] = tex2D<float>(texture, (i % width) + 0.5f, (i / width) + 0.5f);
}
__global__ void write_surface(cudaSurfaceObject_t surface, int width) {
  const int i = threadIdx.x;
  surf2Dwrite(static_cast<float>(100 + i), surface, (i % width) * static_cast<int>(sizeof(float)), i / width);
}
__global__ void fetch(cudaTextureObject_t texture, int* out) {
  out[threadIdx.x] = tex1Dfetch<int>(texture, threadIdx.x);
}

static void arrays() {
  const int width = 8, height = 4;
  std::vector<float> host(width * height), back(width * height);
  for (size_t i = 0; i < host.size(); ++i) host[i] = 0.5f * static_cast<float>(i);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  OK(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
  cudaChannelFormatDesc got{};
  cudaExtent extent{};
  unsigned flags = 0;
  OK(cudaArrayGetInfo(&got, &extent, &flags, array));
  EXPECT(got.x == 32 && got.y == 0 && got.f == cudaChannelFormatKindFloat);
  EXPECT(extent.width == 8 && extent.height == 4 && extent.depth == 0 && flags == cudaArraySurfaceLoadStore);
  const size_t row = width * sizeof(float);
  OK(cudaMemcpy2DToArray(array, 0, 0, host.data(), row, row, height, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DFromArray(back.data(), row, array, 0, 0, row, height, cudaMemcpyDeviceToHost));
  EXPECT(back == host);
  // The linear forms wrap at row ends.
  std::vector<float> run(width + 3, 9.0f);
  OK(cudaMemcpyToArray(array, 5 * sizeof(float), 1, run.data(), run.size() * sizeof(float),
                       cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DFromArray(back.data(), row, array, 0, 0, row, height, cudaMemcpyDeviceToHost));
  bool right = true;
  for (int i = 0; i < width * height; ++i)
    right = right && back[i] == (i >= 13 && i < 13 + width + 3 ? 9.0f : host[i]);
  EXPECT(right);
  OK(cudaFreeArray(array));
  const cudaChannelFormatDesc three = cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindUnsigned);
  GIVES(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&array, &three, 4, 4));
  cudaGetLastError();
}

static void array_texture_and_surface() {
  const int width = 8, height = 4;
  const size_t row = width * sizeof(float);
  std::vector<float> host(width * height), back(width * height);
  for (size_t i = 0; i < host.size(); ++i) host[i] = 0.5f * static_cast<float>(i);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  OK(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
  OK(cudaMemcpy2DToArray(array, 0, 0, host.data(), row, row, height, cudaMemcpyHostToDevice));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc description{};
  description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
  description.filterMode = cudaFilterModePoint;
  description.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture = 0;
  OK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  cudaTextureDesc described{};
  OK(cudaGetTextureObjectTextureDesc(&described, texture));
  EXPECT(described.addressMode[0] == cudaAddressModeClamp && described.readMode == cudaReadModeElementType);
  float* out = nullptr;
  OK(cudaMalloc(&out, host.size() * sizeof(float)));
  sample<<<1, width * height>>>(texture, out, width);
  std::vector<float> sampled(host.size());
  OK(cudaMemcpy(sampled.data(), out, sampled.size() * sizeof(float), cudaMemcpyDeviceToHost));
  EXPECT(sampled == host);
  cudaSurfaceObject_t surface = 0;
  OK(cudaCreateSurfaceObject(&surface, &resource));
  write_surface<<<1, width * height>>>(surface, width);
  OK(cudaMemcpy2DFromArray(back.data(), row, array, 0, 0, row, height, cudaMemcpyDeviceToHost));
  EXPECT(back[0] == 100.0f && back[31] == 131.0f);
  OK(cudaDestroySurfaceObject(surface));
  OK(cudaDestroyTextureObject(texture));
  OK(cudaFreeArray(array));
}

static void linear_texture() {
  int values[16];
  for (int i = 0; i < 16; ++i) values[i] = i * i;
  int *linear = nullptr, *fetched = nullptr;
  OK(cudaMalloc(&linear, sizeof values));
  OK(cudaMalloc(&fetched, sizeof values));
  OK(cudaMemcpy(linear, values, sizeof values, cudaMemcpyHostToDevice));
  cudaTextureDesc description{};
  cudaTextureObject_t texture = 0;
  cudaResourceDesc flat{};
  flat.resType = cudaResourceTypeLinear;
  flat.res.linear.devPtr = linear;
  flat.res.linear.desc = cudaCreateChannelDesc<int>();
  flat.res.linear.sizeInBytes = sizeof values;
  OK(cudaCreateTextureObject(&texture, &flat, &description, nullptr));
  fetch<<<1, 16>>>(texture, fetched);
  int got_values[16];
  OK(cudaMemcpy(got_values, fetched, sizeof got_values, cudaMemcpyDeviceToHost));
  EXPECT(std::memcmp(values, got_values, sizeof values) == 0);
  cudaGetLastError();
}

int main(int argc, char** argv) {
  static const Section sections[] = {{"arrays", arrays},
                                     {"array_texture_and_surface", array_texture_and_surface},
                                     {"linear_texture", linear_texture}};
  return run_section(sections, argc, argv);
}
