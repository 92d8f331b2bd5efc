// Managed variables and managed memory shared by several kernels, streams and the host in turn.
#include "check.h"

__managed__ int table[64];
__managed__ unsigned long long total;

struct Node {
  Node* next;
  int value;
};

__global__ void fill_table(int k) { table[threadIdx.x] = threadIdx.x * k; }
__global__ void add_table(const int* extra, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    atomicAdd(&total, static_cast<unsigned long long>(table[i & 63] + extra[i]));
}
// A list that the host linked through managed pointers.
__global__ void walk(Node* head, int* out) {
  int sum = 0;
  for (Node* n = head; n; n = n->next) {
    sum = sum * 31 + n->value;
    n->value = -n->value;
  }
  *out = sum;
}

int main() {
  Report report;
  fill_table<<<1, 64>>>(3);
  CUDA(cudaDeviceSynchronize());
  bool ok = true;
  for (int i = 0; i < 64; ++i) ok &= table[i] == 3 * i;
  report.check("host reads __managed__", ok);
  for (int i = 0; i < 64; i += 2) table[i] = 1;
  const int n = 1000;
  int* extra;
  CUDA(cudaMallocManaged(&extra, n * sizeof(int)));
  unsigned long long want = 0;
  for (int i = 0; i < n; ++i) {
    extra[i] = i * i % 101;
    want += static_cast<unsigned long long>(table[i & 63] + extra[i]);
  }
  total = 0;
  add_table<<<1, 128>>>(extra, n);
  CUDA(cudaDeviceSynchronize());
  report.check("device reads the host's writes", total == want, total);

  Node* nodes;
  int* out;
  CUDA(cudaMallocManaged(&nodes, 50 * sizeof(Node)));
  CUDA(cudaMallocManaged(&out, sizeof(int), cudaMemAttachGlobal));
  int sum = 0;
  Node* head = nullptr;
  for (int i = 0; i < 50; ++i) {
    nodes[i] = {head, i * 7};
    head = &nodes[i];
  }
  for (Node* p = head; p; p = p->next) sum = sum * 31 + p->value;
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  walk<<<1, 1, 0, stream>>>(head, out);
  CUDA(cudaStreamSynchronize(stream));
  report.check("linked list", *out == sum && nodes[9].value == -63, static_cast<unsigned>(*out));

  // The plain copy and set calls accept managed pointers too.
  CUDA(cudaMemset(extra, 0x11, 400));
  CUDA(cudaMemcpy(extra + 100, extra, 400, cudaMemcpyDefault));
  CUDA(cudaDeviceSynchronize());
  report.check("set and copy",
               extra[0] == 0x11111111 && extra[199] == 0x11111111 && extra[200] == 200 * 200 % 101);
  CUDA(cudaFree(extra));
  CUDA(cudaFree(nodes));
  CUDA(cudaFree(out));
  return report.finish();
}
