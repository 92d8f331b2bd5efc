// Copies in every shape, pinned and managed memory, pools, graphs built by hand and captured, events, peers.
#include <cstdint>
#include <vector>

#include "program_check.h"

__device__ int word = 8;
__global__ void add_one(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}

static void copies_2d() {
  const size_t width = 100, height = 7;
  std::vector<unsigned char> host(width * height), back(width * height);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 7);
  void* device = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(&device, &pitch, width, height));
  EXPECT(pitch >= width && pitch % 4 == 0);
  OK(cudaMemset2D(device, pitch, 0xab, width, height));
  OK(cudaMemcpy2D(back.data(), width, device, pitch, width, height, cudaMemcpyDeviceToHost));
  EXPECT(back[0] == 0xab && back.back() == 0xab);
  OK(cudaMemcpy2D(device, pitch, host.data(), width, width, height, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2D(back.data(), width, device, pitch, width, height, cudaMemcpyDefault));
  EXPECT(back == host);
  GIVES(cudaErrorInvalidPitchValue,
        cudaMemcpy2D(back.data(), width - 1, device, pitch, width, height, cudaMemcpyDefault));
  OK(cudaMemcpy2D(back.data(), width, device, pitch, 0, height, cudaMemcpyDeviceToHost));
  OK(cudaFree(device));
  cudaGetLastError();
}

static void copies_3d() {
  const cudaExtent extent = make_cudaExtent(24, 5, 4);
  cudaPitchedPtr device{};
  OK(cudaMalloc3D(&device, extent));
  std::vector<unsigned char> host(24 * 5 * 4), back(host.size());
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(host.data(), 24, 24, 5);
  copy.dstPtr = device;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  OK(cudaMemset3D(device, 0x5c, make_cudaExtent(24, 2, 4)));
  copy.srcPtr = device;
  copy.dstPtr = make_cudaPitchedPtr(back.data(), 24, 24, 5);
  copy.kind = cudaMemcpyDefault;
  OK(cudaMemcpy3D(&copy));
  bool right = true;
  for (size_t i = 0; i < back.size(); ++i) right = right && back[i] == ((i / 24) % 5 < 2 ? 0x5c : host[i]);
  EXPECT(right);
  copy.srcArray = reinterpret_cast<cudaArray_t>(&copy);
  GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&copy));  // two sources
  OK(cudaFree(device.ptr));
  cudaGetLastError();
}

static void pools() {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  int* data = nullptr;
  OK(cudaMallocAsync(&data, 64 * sizeof(int), stream));
  OK(cudaMemsetAsync(data, 0, 64 * sizeof(int), stream));
  add_one<<<1, 64, 0, stream>>>(data, 64);
  int value = 0;
  OK(cudaMemcpyAsync(&value, data + 63, sizeof value, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(data, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(value == 1);
  cudaMemPool_t pool = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t threshold = UINT64_MAX, got = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
  EXPECT(got == threshold);
  OK(cudaMemPoolTrimTo(pool, 0));
  OK(cudaStreamDestroy(stream));
}

static void host_memory() {
  int* pinned = nullptr;
  OK(cudaHostAlloc(reinterpret_cast<void**>(&pinned), 4096, cudaHostAllocMapped));
  pinned[0] = 4;
  int* mapped = nullptr;
  OK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&mapped), pinned, 0));
  add_one<<<1, 1>>>(mapped, 1);
  OK(cudaDeviceSynchronize());
  EXPECT(pinned[0] == 5);
  cudaPointerAttributes attributes{};
  OK(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned &&
         attributes.devicePointer == mapped);
  OK(cudaFreeHost(pinned));
  int* managed = nullptr;
  OK(cudaMallocManaged(&managed, 16 * sizeof(int)));
  managed[3] = 1;
  add_one<<<1, 16>>>(managed, 16);
  OK(cudaDeviceSynchronize());
  EXPECT(managed[3] == 2);
  OK(cudaFree(managed));
  std::vector<int> local(4096, 1);
  OK(cudaHostRegister(local.data(), local.size() * sizeof(int), cudaHostRegisterDefault));
  GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(local.data(), local.size() * sizeof(int), 0));
  OK(cudaHostUnregister(local.data()));
  GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(local.data()));
  OK(cudaFree(nullptr));
  OK(cudaFreeHost(nullptr));
  GIVES(cudaErrorInvalidValue, cudaFree(reinterpret_cast<void*>(uintptr_t{0x1234500})));
  cudaGetLastError();
}

static void graphs() {
  int* data = nullptr;
  const int n = 32;
  OK(cudaMalloc(&data, n * sizeof(int)));
  cudaGraph_t graph = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams fill{};
  fill.dst = data;
  fill.elementSize = 4;
  fill.width = n;
  fill.height = 1;
  fill.value = 10;
  cudaGraphNode_t fill_node = nullptr, kernel_node = nullptr, copy_node = nullptr, host_node = nullptr,
                  symbol_node = nullptr;
  OK(cudaGraphAddMemsetNode(&fill_node, graph, nullptr, 0, &fill));
  int count = n;
  void* arguments[] = {&data, &count};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(add_one);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(n);
  kernel.kernelParams = arguments;
  OK(cudaGraphAddKernelNode(&kernel_node, graph, &fill_node, 1, &kernel));
  cudaKernelNodeParams got{};
  OK(cudaGraphKernelNodeGetParams(kernel_node, &got));
  EXPECT(got.func == reinterpret_cast<void*>(add_one) && got.blockDim.x == n);
  std::vector<int> host(n, -1);
  OK(cudaGraphAddMemcpyNode1D(&copy_node, graph, &kernel_node, 1, host.data(), data, n * sizeof(int),
                              cudaMemcpyDeviceToHost));
  static int calls = 0;
  cudaHostNodeParams call{[](void* counter) { ++*static_cast<int*>(counter); }, &calls};
  OK(cudaGraphAddHostNode(&host_node, graph, &copy_node, 1, &call));
  int from_symbol = 0;
  OK(cudaGraphAddMemcpyNodeFromSymbol(&symbol_node, graph, nullptr, 0, &from_symbol, word, sizeof word, 0,
                                      cudaMemcpyDeviceToHost));
  size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 5);
  cudaMemcpy3DParms copied{};
  OK(cudaGraphMemcpyNodeGetParams(copy_node, &copied));
  EXPECT(copied.extent.width == n * sizeof(int) && copied.kind == cudaMemcpyDeviceToHost &&
         copied.dstPtr.ptr == host.data());
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(host[0] == 11 && host[n - 1] == 11 && calls == 1 && from_symbol == 8);
  count = 4;  // only the first four now
  OK(cudaGraphExecKernelNodeSetParams(exec, kernel_node, &kernel));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(host[3] == 11 && host[4] == 10);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));

  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  add_one<<<1, n, 0, stream>>>(data, n);
  add_one<<<1, n, 0, stream>>>(data, n);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  OK(cudaStreamIsCapturing(stream, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  OK(cudaStreamEndCapture(stream, &graph));
  nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 2);
  cudaGraphNode_t captured[2];
  OK(cudaGraphGetNodes(graph, captured, &nodes));
  OK(cudaGraphKernelNodeGetParams(captured[0], &got));
  EXPECT(got.func == reinterpret_cast<void*>(add_one));
  OK(cudaGraphKernelNodeSetParams(captured[0], &got));  // what a query gave may be set again
  OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(host[0] == 13);
  cudaGraphExecUpdateResultInfo update{};
  OK(cudaGraphExecUpdate(exec, graph, &update));
  EXPECT(update.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));

  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  void* pointer = nullptr;
  GIVES(cudaErrorStreamCaptureUnsupported, cudaMalloc(&pointer, 16));
  GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  cudaGetLastError();
  OK(cudaStreamDestroy(stream));
}

static void events() {
  cudaEvent_t start = nullptr, end = nullptr, silent = nullptr;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventCreateWithFlags(&silent, cudaEventDisableTiming));
  int* data = nullptr;
  OK(cudaMalloc(&data, 1024 * sizeof(int)));
  OK(cudaEventRecord(start));
  add_one<<<8, 128>>>(data, 1024);
  OK(cudaEventRecord(end));
  OK(cudaEventRecord(silent));
  OK(cudaEventSynchronize(end));
  float milliseconds = -1;
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0);
  GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, start, silent));
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0, priority = 9;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT(greatest <= least);
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  OK(cudaStreamGetPriority(stream, &priority));
  EXPECT(priority == greatest);
  unsigned flags = 9;
  OK(cudaStreamGetFlags(stream, &flags));
  EXPECT(flags == cudaStreamNonBlocking);
  OK(cudaStreamWaitEvent(stream, end, 0));
  OK(cudaStreamSynchronize(stream));
  GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(nullptr));
  OK(cudaStreamDestroy(stream));
  OK(cudaEventDestroy(start));
  cudaGetLastError();
}

static void peers() {
  int devices = 0, can = 0;
  OK(cudaGetDeviceCount(&devices));
  if (devices < 2) return;
  int* here = nullptr;
  int* there = nullptr;
  OK(cudaSetDevice(0));
  OK(cudaMalloc(&here, sizeof(int)));
  OK(cudaMemset(here, 0, sizeof(int)));
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&there, sizeof(int)));
  OK(cudaSetDevice(0));
  add_one<<<1, 1>>>(here, 1);
  OK(cudaMemcpyPeer(there, 1, here, 0, sizeof(int)));
  int value = 0;
  OK(cudaMemcpy(&value, there, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == 1);
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
  if (can) {
    OK(cudaDeviceEnablePeerAccess(1, 0));
    GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
    add_one<<<1, 1>>>(there, 1);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(&value, there, sizeof value, cudaMemcpyDefault));
    EXPECT(value == 2);
    OK(cudaDeviceDisablePeerAccess(1));
  }
  cudaGetLastError();
}

int main(int argc, char** argv) {
  static const Section sections[] = {
      {"copies_2d", copies_2d}, {"copies_3d", copies_3d}, {"pools", pools}, {"host_memory", host_memory},
      {"graphs", graphs},       {"events", events},       {"peers", peers}};
  return run_section(sections, argc, argv);
}
