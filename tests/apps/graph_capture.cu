// The program's own CUDA graphs: fork and join by capture, launches, an update, an explicit graph with new
// parameters.
#include "check.h"

__global__ void add(int* v, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] += k;
}
__global__ void multiply(int* v, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] *= k;
}
__global__ void join(const int* a, const int* b, int* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] += a[i] - b[i];
}

int main() {
  Report report;
  const int n = 3000, grid = (n + 127) / 128;
  int *a, *b, *c;
  CUDA(cudaMalloc(&a, n * sizeof(int)));
  CUDA(cudaMalloc(&b, n * sizeof(int)));
  CUDA(cudaMalloc(&c, n * sizeof(int)));
  CUDA(cudaMemset(c, 0, n * sizeof(int)));
  cudaStream_t s1, s2;
  CUDA(cudaStreamCreate(&s1));
  CUDA(cudaStreamCreate(&s2));
  cudaEvent_t fork, joined;
  CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  CUDA(cudaDeviceSynchronize());

  auto capture = [&](int k) {
    cudaGraph_t graph;
    CUDA(cudaStreamBeginCapture(s1, cudaStreamCaptureModeGlobal));
    CUDA(cudaMemsetAsync(a, 0, n * sizeof(int), s1));
    CUDA(cudaEventRecord(fork, s1));
    CUDA(cudaStreamWaitEvent(s2, fork, 0));
    CUDA(cudaMemsetAsync(b, 0, n * sizeof(int), s2));
    add<<<grid, 128, 0, s1>>>(a, n, k);
    add<<<grid, 128, 0, s2>>>(b, n, 2);
    multiply<<<grid, 128, 0, s1>>>(a, n, 5);
    CUDA(cudaEventRecord(joined, s2));
    CUDA(cudaStreamWaitEvent(s1, joined, 0));
    join<<<grid, 128, 0, s1>>>(a, b, c, n);
    cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(s1, &status));
    report.check("capturing", status == cudaStreamCaptureStatusActive);
    CUDA(cudaStreamEndCapture(s1, &graph));
    return graph;
  };
  cudaGraph_t graph = capture(7);
  size_t nodes = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  report.check("six nodes", nodes == 6);
  const std::vector<int> before = host_copy(c, n);
  report.check("capture ran nothing", before[0] == 0 && before[n - 1] == 0);
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CUDA(cudaGraphLaunch(exec, s1));
  CUDA(cudaStreamSynchronize(s1));
  std::vector<int> got = host_copy(c, n);
  report.check("three launches", got == std::vector<int>(n, 3 * (35 - 2)), digest(got));

  cudaGraph_t changed = capture(9);
  cudaGraphExecUpdateResultInfo info{};
  CUDA(cudaGraphExecUpdate(exec, changed, &info));
  report.check("update", info.result == cudaGraphExecUpdateSuccess);
  CUDA(cudaGraphLaunch(exec, s2));
  CUDA(cudaStreamSynchronize(s2));
  got = host_copy(c, n);
  report.check("after the update", got == std::vector<int>(n, 3 * 33 + 43), digest(got));

  // A graph built by hand: memset, kernel, kernel; the executable's kernel parameters are changed afterwards.
  cudaGraph_t manual;
  CUDA(cudaGraphCreate(&manual, 0));
  cudaMemsetParams set{};
  set.dst = c;
  set.elementSize = 4;
  set.width = n;
  set.height = 1;
  set.value = 4;
  cudaGraphNode_t set_node, add_node, multiply_node;
  CUDA(cudaGraphAddMemsetNode(&set_node, manual, nullptr, 0, &set));
  int count = n, k = 6;
  void* args[] = {&c, &count, &k};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(add);
  kernel.gridDim = dim3(grid);
  kernel.blockDim = dim3(128);
  kernel.kernelParams = args;
  CUDA(cudaGraphAddKernelNode(&add_node, manual, &set_node, 1, &kernel));
  kernel.func = reinterpret_cast<void*>(multiply);
  CUDA(cudaGraphAddKernelNode(&multiply_node, manual, &add_node, 1, &kernel));
  cudaGraphExec_t manual_exec;
  CUDA(cudaGraphInstantiate(&manual_exec, manual, 0));
  CUDA(cudaGraphLaunch(manual_exec, s1));
  CUDA(cudaStreamSynchronize(s1));
  got = host_copy(c, n);
  report.check("built by hand", got == std::vector<int>(n, (4 + 6) * 6), digest(got));
  k = -3;
  CUDA(cudaGraphExecKernelNodeSetParams(manual_exec, multiply_node, &kernel));
  CUDA(cudaGraphLaunch(manual_exec, s1));
  CUDA(cudaStreamSynchronize(s1));
  got = host_copy(c, n);
  report.check("new parameters", got == std::vector<int>(n, (4 + 6) * -3), digest(got));

  // A forbidden call invalidates the capture and is reported as such.
  CUDA(cudaStreamBeginCapture(s1, cudaStreamCaptureModeGlobal));
  add<<<grid, 128, 0, s1>>>(a, n, 1);
  report.check("synchronising is forbidden", cudaStreamSynchronize(s1) == cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
  cudaGraph_t none = nullptr;
  report.check("the capture is lost",
               cudaStreamEndCapture(s1, &none) == cudaErrorStreamCaptureInvalidated && !none);
  cudaGetLastError();
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphExecDestroy(manual_exec));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaGraphDestroy(changed));
  CUDA(cudaGraphDestroy(manual));
  return report.finish();
}
