// Function pointers, virtual functions, recursion, local arrays, and a kernel with a large parameter block.
#include "check.h"

struct Shape {
  __device__ virtual int area(int k) const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  int side;
  __device__ explicit Square(int s) : side(s) {}
  __device__ int area(int k) const override { return side * side + k; }
};
struct Box : Shape {
  int w, h;
  __device__ Box(int a, int b) : w(a), h(b) {}
  __device__ int area(int k) const override { return w * h - k; }
};

__device__ __noinline__ int triple(int v) { return 3 * v; }
__device__ __noinline__ int negate(int v) { return -v; }
__device__ __noinline__ int square(int v) { return v * v; }
using Function = int (*)(int);
__device__ Function functions[3] = {triple, negate, square};

__device__ __noinline__ unsigned ackermann_like(unsigned depth, unsigned v) {
  if (depth == 0) return v + 1;
  if (v % 3 == 0) return ackermann_like(depth - 1, v / 3 + depth);
  return ackermann_like(depth - 1, v - 1) ^ ackermann_like(depth / 2, v + 2);
}

__global__ void objects(int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Square square_shape(i % 7);
  Box box(i % 5, i % 11);
  const Shape* shapes[2] = {&square_shape, &box};
  out[i] = shapes[(i >> 1) & 1]->area(i);
}
__global__ void pointers(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = functions[in[i] % 3](in[i]);
}
__global__ void recursion(unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = ackermann_like(i % 6, i * 37u);
}
struct Large {
  char first;
  double weights[100];
  short index[64];
  int3 last;
};
__global__ void parameters(char c, Large large, short s, double d, int* out) {
  const int i = threadIdx.x;
  int local[40];
  for (int k = 0; k < 40; ++k) local[(k * 7) % 40] = k + i;
  out[i] = static_cast<int>(large.weights[i]) + large.index[i] + large.last.z + c + s + static_cast<int>(d) +
           large.first + local[(i * 3) % 40];
}

unsigned host_recursion(unsigned depth, unsigned v) {
  if (depth == 0) return v + 1;
  if (v % 3 == 0) return host_recursion(depth - 1, v / 3 + depth);
  return host_recursion(depth - 1, v - 1) ^ host_recursion(depth / 2, v + 2);
}

int main() {
  Report report;
  const int n = 600;
  std::vector<int> in(n), want(n);
  int* out = device_array<int>(n);
  objects<<<5, 128>>>(out, n);
  for (int i = 0; i < n; ++i) want[i] = (i >> 1) & 1 ? (i % 5) * (i % 11) - i : (i % 7) * (i % 7) + i;
  std::vector<int> got = host_copy(out, n);
  report.check("virtual functions", same(got, want), digest(got));

  for (int i = 0; i < n; ++i) {
    in[i] = i * 17 % 331;
    want[i] = in[i] % 3 == 0 ? 3 * in[i] : in[i] % 3 == 1 ? -in[i] : in[i] * in[i];
  }
  pointers<<<5, 128>>>(device_copy(in), out, n);
  got = host_copy(out, n);
  report.check("function pointers", same(got, want), digest(got));

  recursion<<<5, 128>>>(reinterpret_cast<unsigned*>(out), n);
  for (int i = 0; i < n; ++i) want[i] = static_cast<int>(host_recursion(i % 6, i * 37u));
  got = host_copy(out, n);
  report.check("recursion", same(got, want), digest(got));

  Large large{};
  large.first = 3;
  for (int i = 0; i < 100; ++i) large.weights[i] = i * 1.5;
  for (int i = 0; i < 64; ++i) large.index[i] = static_cast<short>(-i * 3);
  large.last = make_int3(1, 2, 1000);
  parameters<<<1, 64>>>(5, large, -7, 12.75, out);
  CUDA(cudaGetLastError());
  std::vector<int> want64(64);
  for (int i = 0; i < 64; ++i) {
    int local[40];
    for (int k = 0; k < 40; ++k) local[(k * 7) % 40] = k + i;
    want64[i] =
        static_cast<int>(large.weights[i]) + large.index[i] + 1000 + 5 - 7 + 12 + 3 + local[(i * 3) % 40];
  }
  got = host_copy(out, 64);
  report.check("large parameters", same(got, want64), digest(got));
  return report.finish();
}
