// Launches, symbols, managed variables, attributes and error state, as nvcc's own code reaches them.
#include <dlfcn.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "program_check.h"

__device__ int counter = 5;
__device__ float table[8];
__constant__ int factor = 3;
__managed__ int shared_total = 40;
__managed__ double shared_pair[2] = {1.5, 2.5};

__global__ void scale(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * factor + counter;
}
__global__ void fill_table(float base) { table[threadIdx.x] = base + threadIdx.x; }
__global__ void add_to_managed(int amount) { atomicAdd(&shared_total, amount); }
__global__ void __launch_bounds__(256) bounded(int* out) {
  __shared__ int scratch[64];
  scratch[threadIdx.x % 64] = threadIdx.x;
  __syncthreads();
  out[0] = scratch[0];
}
extern __shared__ int dynamic[];
__global__ void use_dynamic(int* out, int words) {
  for (int i = threadIdx.x; i < words; i += blockDim.x) dynamic[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = dynamic[words - 1];
}
template <typename T>
__global__ void store(T* out, T value) {
  *out = value;
}
struct Large {
  char tag;
  double number;
  int values[3];
};
__global__ void unpack(Large large, char c, short s, float4 vector, double* out) {
  out[0] = large.tag + large.number + large.values[2] + c + s + vector.w;
}
__global__ void write_to(int* where) { *where = 1; }

static int read_back(const int* device) {
  int value = -1;
  OK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void launches() {
  const int n = 1000;
  std::vector<int> host(n);
  for (int i = 0; i < n; ++i) host[i] = i;
  int* device = nullptr;
  OK(cudaMalloc(&device, n * sizeof(int)));
  OK(cudaMemcpy(device, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  scale<<<(n + 127) / 128, 128>>>(device, n);
  OK(cudaGetLastError());
  OK(cudaMemcpy(host.data(), device, n * sizeof(int), cudaMemcpyDefault));
  bool right = true;
  for (int i = 0; i < n; ++i) right = right && host[i] == i * 3 + 5;
  EXPECT(right);

  store<<<1, 1>>>(device, 77);
  EXPECT(read_back(device) == 77);
  double* result = nullptr;
  OK(cudaMalloc(&result, sizeof(double)));
  store<<<1, 1>>>(result, 2.5);
  Large large{1, 2.0, {0, 0, 3}};
  unpack<<<1, 1>>>(large, 4, 5, float4{0, 0, 0, 6}, result);
  double sum = 0;
  OK(cudaMemcpy(&sum, result, sizeof sum, cudaMemcpyDeviceToHost));
  EXPECT(sum == 21.0);

  // The C forms, with the kernel as symbol, as cudaKernel_t, and with attributes.
  int value = 11;
  void* arguments[] = {&device, &value};
  OK(cudaLaunchKernel(store<int>, dim3(1), dim3(1), arguments, 0, nullptr));
  EXPECT(read_back(device) == 11);
  cudaKernel_t kernel = nullptr;
  OK(cudaGetKernel(&kernel, store<int>));
  value = 12;
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0,
                      cudaStreamPerThread));
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT(read_back(device) == 12);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributePriority;
  attribute.val.priority = 0;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, store<int>, device, 13));
  OK(cudaStreamSynchronize(stream));
  EXPECT(read_back(device) == 13);
  OK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(store<int>), dim3(1), dim3(1), arguments, 0,
                                 stream));
  OK(cudaDeviceSynchronize());
  EXPECT(read_back(device) == 12);
  static int called = 0;
  OK(cudaLaunchHostFunc(
      stream, [](void* count) { ++*static_cast<int*>(count); }, &called));
  OK(cudaStreamAddCallback(
      stream,
      [](cudaStream_t, cudaError_t status, void* count) {
        if (status == cudaSuccess) ++*static_cast<int*>(count);
      },
      &called, 0));
  OK(cudaStreamSynchronize(stream));
  EXPECT(called == 2);
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(result));
  OK(cudaFree(device));
}

static void symbols() {
  int value = 0;
  size_t size = 0;
  OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  EXPECT(value == 5);
  value = 9;
  OK(cudaMemcpyToSymbol(counter, &value, sizeof value));
  value = 7;
  OK(cudaMemcpyToSymbol(factor, &value, sizeof value));
  OK(cudaGetSymbolSize(&size, table));
  EXPECT(size == sizeof table);
  float* address = nullptr;
  OK(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), table));
  fill_table<<<1, 8>>>(10.0f);
  float last = 0;
  OK(cudaMemcpy(&last, address + 7, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 17.0f);
  OK(cudaMemcpyFromSymbol(&last, table, sizeof last, 3 * sizeof last));
  EXPECT(last == 13.0f);
  GIVES(cudaErrorInvalidValue, cudaMemcpyFromSymbol(&last, table, sizeof last, sizeof table));
  GIVES(cudaErrorInvalidSymbol, cudaGetSymbolSize(&size, &value));
  int* device = nullptr;
  OK(cudaMalloc(&device, sizeof(int)));
  OK(cudaMemset(device, 0, sizeof(int)));
  scale<<<1, 1>>>(device, 1);
  EXPECT(read_back(device) == 9);
  // Globals are per device.
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  if (devices > 1) {
    OK(cudaSetDevice(1));
    OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    EXPECT(value == 5);
    OK(cudaSetDevice(0));
    OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    EXPECT(value == 9);
  }
  cudaGetLastError();
}

static void managed_variables() {
  // The host's first touch is what brings the module in.
  EXPECT(shared_total == 40);
  shared_total += 2;
  add_to_managed<<<2, 32>>>(1);
  OK(cudaDeviceSynchronize());
  EXPECT(shared_total == 106);
  EXPECT(shared_pair[1] == 2.5);
  int* address = nullptr;
  OK(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), shared_total));
  EXPECT(address == &shared_total);
  int copy = 0;
  OK(cudaMemcpyFromSymbol(&copy, shared_total, sizeof copy));
  EXPECT(copy == 106);
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, &shared_total));
  EXPECT(attributes.type == cudaMemoryTypeManaged);
  EXPECT(attributes.devicePointer == &shared_total && attributes.hostPointer == &shared_total);
}

static void function_attributes() {
  cudaFuncAttributes attributes{};
  OK(cudaFuncGetAttributes(&attributes, bounded));
  EXPECT(attributes.maxThreadsPerBlock == 256);
  EXPECT(attributes.sharedSizeBytes == 256);
  EXPECT(attributes.numRegs > 0);
  EXPECT(attributes.ptxVersion >= 75);
  int device = 0, opt_in = 0;
  OK(cudaGetDevice(&device));
  OK(cudaDeviceGetAttribute(&opt_in, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, device));
  EXPECT(properties.sharedMemPerBlockOptin == static_cast<size_t>(opt_in));
  EXPECT(properties.warpSize == 32 && properties.major >= 7 && properties.totalGlobalMem > 0);
  EXPECT(properties.name[0] != '\0' && properties.multiProcessorCount > 0);
  int* out = nullptr;
  OK(cudaMalloc(&out, sizeof(int)));
  const int words = 60 * 1024 / 4;
  use_dynamic<<<1, 64, words * 4>>>(out, words);
  GIVES(cudaErrorInvalidValue, cudaGetLastError());
  OK(cudaFuncSetAttribute(use_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, words * 4));
  use_dynamic<<<1, 64, words * 4>>>(out, words);
  OK(cudaGetLastError());
  EXPECT(read_back(out) == words - 1);
  GIVES(cudaErrorInvalidValue,
        cudaFuncSetAttribute(use_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, opt_in + 4096));
  int blocks = 0, grid = 0, block = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 256, 0));
  EXPECT(blocks >= 1);
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded));
  EXPECT(block > 0 && block <= 256 && grid >= properties.multiProcessorCount);
  const char* name = nullptr;
  OK(cudaFuncGetName(&name, bounded));
  EXPECT(name != nullptr && std::strstr(name, "bounded") != nullptr);
  size_t offset = 0, size = 0;
  OK(cudaFuncGetParamInfo(reinterpret_cast<const void*>(unpack), 3, &offset, &size));
  EXPECT(offset == 48 && size == 16);
  cudaGetLastError();
}

static void configuration_errors() {
  int* device = nullptr;
  OK(cudaMalloc(&device, sizeof(int)));
  store<<<0, 1>>>(device, 1);
  GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
  store<<<1, 2048>>>(device, 1);
  GIVES(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
  GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
  OK(cudaGetLastError());
  store<<<dim3(1, 65536), 1>>>(device, 1);
  GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
  store<<<1, dim3(1, 1, 65)>>>(device, 1);
  GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
  store<<<1, 1, 1 << 20>>>(device, 1);
  GIVES(cudaErrorInvalidValue, cudaGetLastError());
  bounded<<<1, 512>>>(device);  // more threads than the kernel was built for
  const cudaError_t bounds = cudaGetLastError();
  EXPECT(bounds == cudaErrorLaunchOutOfResources || bounds == cudaErrorInvalidValue);
  GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device, device, 4, static_cast<cudaMemcpyKind>(17)));
  GIVES(cudaErrorInvalidDevice, cudaSetDevice(1000));
  GIVES(cudaErrorMemoryAllocation, cudaMalloc(&device, size_t{1} << 50));
  store<<<1, 1>>>(device, 3);  // still works, and clears nothing
  GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
  OK(cudaDeviceSynchronize());
}

static void sticky_errors() {
  write_to<<<1, 1>>>(reinterpret_cast<int*>(uintptr_t{0x10}));
  GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  GIVES(cudaErrorIllegalAddress, cudaGetLastError());
  void* pointer = nullptr;
  GIVES(cudaErrorIllegalAddress, cudaMalloc(&pointer, 16));
  GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  // A reset gives a working device again.
  OK(cudaDeviceReset());
  cudaGetLastError();
  OK(cudaMalloc(&pointer, 16));
  store<<<1, 1>>>(static_cast<int*>(pointer), 5);
  EXPECT(read_back(static_cast<int*>(pointer)) == 5);
}

static void device_reset() {
  EXPECT(shared_total == 40);
  shared_total = 50;
  int value = 6;
  OK(cudaMemcpyToSymbol(counter, &value, sizeof value));
  OK(cudaDeviceReset());
  OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  EXPECT(value == 5);               // the module's initial value again
  const int before = shared_total;  // wherever it lives now, host and device agree on it
  add_to_managed<<<1, 1>>>(1);
  OK(cudaDeviceSynchronize());
  EXPECT(shared_total == before + 1);
}

static void threads() {
  std::vector<std::thread> pool;
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  for (int t = 0; t < 8; ++t) {
    pool.emplace_back([t, devices] {
      OK(cudaSetDevice(t % devices));
      int* device = nullptr;
      OK(cudaMalloc(&device, sizeof(int)));
      cudaStream_t stream = nullptr;
      OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      for (int i = 0; i < 20; ++i) {
        store<<<1, 1, 0, stream>>>(device, 100 * t + i);
        int value = 0;
        OK(cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream));
        OK(cudaStreamSynchronize(stream));
        EXPECT(value == 100 * t + i);
      }
      OK(cudaStreamDestroy(stream));
      OK(cudaFree(device));
    });
  }
  for (std::thread& thread : pool) thread.join();
}

// A library with kernels comes and goes; each time it starts from its initial values.
static const char* plugin_path = nullptr;
static void plugins() {
  for (int round = 0; round < 3; ++round) {
    void* library = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != nullptr);
    if (library == nullptr) return;
    const auto run = reinterpret_cast<int (*)()>(dlsym(library, "plugin_run"));
    EXPECT(run() == 2102);
    EXPECT(run() == 2203);
    EXPECT(dlclose(library) == 0);
    EXPECT(dlopen(plugin_path, RTLD_NOW | RTLD_NOLOAD) == nullptr);
    EXPECT(shared_total == 40);
  }
}

// Lives until after main; uses the device in its destructor.
struct AtExit {
  int* device = nullptr;
  ~AtExit() {
    if (device == nullptr) return;
    store<<<1, 1>>>(device, 31);
    int value = 0;
    const cudaError_t copied = cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost);
    std::printf("static destructor: %s, read %d, free %s\n", cudaGetErrorName(copied), value,
                cudaGetErrorName(cudaFree(device)));
    std::fflush(stdout);
  }
} at_exit;
static void exit_use() { OK(cudaMalloc(&at_exit.device, sizeof(int))); }

int main(int argc, char** argv) {
  static const Section sections[] = {{"launches", launches},
                                     {"symbols", symbols},
                                     {"managed_variables", managed_variables},
                                     {"function_attributes", function_attributes},
                                     {"configuration_errors", configuration_errors},
                                     {"sticky_errors", sticky_errors},
                                     {"device_reset", device_reset},
                                     {"threads", threads},
                                     {"plugins", plugins},
                                     {"exit_use", exit_use}};
  if (argc > 2) plugin_path = argv[2];
  return run_section(sections, argc, argv);
}
