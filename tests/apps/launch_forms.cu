// Every way to start a kernel: triple brackets, cudaLaunchKernel, cudaLaunchKernelEx with attributes, a
// function handle, a library loaded at run time; and stream callbacks of both kinds.
#include <fstream>
#include <sstream>
#include <string>

#include "check.h"

__global__ void multiply(int* v, int n, short k) {
  if (threadIdx.y != 0) return;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    v[i] = v[i] * k + blockDim.y;
}
template <int kStep>
__global__ void stepped(int* v, int n) {
  const int i = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.x + threadIdx.x;
  if (i < n) v[i] += kStep + warpSize;
}

void CUDART_CB legacy_callback(cudaStream_t, cudaError_t status, void* data) {
  *static_cast<int*>(data) += status == cudaSuccess ? 1 : 100;
}

int main(int argc, char** argv) {
  (void)argc;
  Report report;
  const int n = 2000;
  std::vector<int> want(n);
  for (int i = 0; i < n; ++i) want[i] = i;
  int* v = device_copy(want);
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto check = [&](const char* what, auto&& update) {
    CUDA(cudaGetLastError());
    CUDA(cudaStreamSynchronize(stream));
    for (int& x : want) update(x);
    const std::vector<int> got = host_copy(v, n);
    report.check(what, same(got, want), digest(got));
  };

  multiply<<<7, dim3(32, 4), 0, stream>>>(v, n, 3);
  check("brackets", [](int& x) { x = x * 3 + 4; });

  int count = n;
  short k = -5;
  void* args[] = {&v, &count, &k};
  CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(multiply), dim3(3), dim3(64, 2), args, 0, stream));
  check("cudaLaunchKernel", [](int& x) { x = x * -5 + 2; });

  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1, 4, 8);
  config.blockDim = dim3(64);
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributePriority;
  attributes[0].val.priority = 0;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 0;
  config.attrs = attributes;
  config.numAttrs = 2;
  CUDA(cudaLaunchKernelEx(&config, stepped<11>, v, count));
  check("cudaLaunchKernelEx", [](int& x) { x += 43; });

  cudaKernel_t handle;
  CUDA(cudaGetKernel(&handle, reinterpret_cast<const void*>(stepped<2>)));
  void* step_args[] = {&v, &count};
  CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(handle), dim3(1, 32, 1), dim3(64), step_args, 0,
                        stream));
  check("kernel handle", [](int& x) { x += 34; });

  // drv_kernels.ptx lies beside the program.
  std::string path = argv[0];
  path = path.substr(0, path.rfind('/') + 1) + "drv_kernels.ptx";
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  cudaLibrary_t library;
  cudaKernel_t scramble;
  CUDA(cudaLibraryLoadData(&library, text.str().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUDA(cudaLibraryGetKernel(&scramble, library, "scramble"));
  unsigned key = 99;
  void* scramble_args[] = {&v, &count, &key};
  CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(scramble), dim3((n + 127) / 128), dim3(128),
                        scramble_args, 0, stream));
  check("library", [](int& x) { x = static_cast<int>((static_cast<unsigned>(x) ^ 99u) * 2654435761u); });
  CUDA(cudaLibraryUnload(library));

  int called = 0;
  CUDA(cudaStreamAddCallback(stream, legacy_callback, &called, 0));
  CUDA(cudaStreamSynchronize(stream));
  report.check("callback", called == 1);
  report.check("no such kernel", cudaLaunchKernel(&called, dim3(1), dim3(1), nullptr, 0, stream) ==
                                     cudaErrorInvalidDeviceFunction);
  cudaGetLastError();
  CUDA(cudaStreamDestroy(stream));
  return report.finish();
}
