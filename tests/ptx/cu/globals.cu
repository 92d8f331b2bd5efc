// Variables of every space, initialisers with addresses, virtual and indirect calls, device printf and
// assert.
#include <cassert>
#include <cstdio>

struct Record {
  char c;
  short s;
  int i;
  const char* text;
  double d;
};
__device__ int table[2][3] = {{1, 2, 3}, {4, 5, 6}};
__constant__ float coefficients[4] = {1.5f, -2.25f, 0.0f, 3.4028235e38f};
__constant__ double pi = 3.14159265358979323846;
__device__ int* pointer_into_table = &table[1][1];
__device__ Record records[2] = {{'a', 1, 2, "first", 0.5}, {'b', -3, 4, "second", -0.25}};
__managed__ long long managed_counter = 42;
__device__ volatile unsigned flags;

__device__ __noinline__ float twice(float x) { return x * 2 + coefficients[1]; }
__device__ __noinline__ float thrice(float x) { return x * 3 + static_cast<float>(pi); }
typedef float (*Operation)(float);
__device__ Operation operations[2] = {twice, thrice};

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float r) : radius(r) {}
  __device__ float area() const override { return 3.14f * radius * radius; }
};

__global__ void use_globals(float* out, int which) {
  out[0] = operations[which & 1](out[1]);
  out[2] = table[which & 1][which % 3] + *pointer_into_table + coefficients[which & 3];
  out[3] = records[which & 1].text[0] + records[which & 1].d;
  managed_counter += which;
  while (flags == 0) {
  }
}
__global__ void use_virtual(float* out, int which) {
  Shape* shape = which ? static_cast<Shape*>(new Square(out[0])) : static_cast<Shape*>(new Circle(out[1]));
  out[2] = shape->area();
  delete shape;
}
__global__ void print_and_assert(int n) {
  printf("thread %d of %d: %f %s\n", threadIdx.x, n, n * 0.5, "text");
  assert(n > 3);
}
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void recursive(int* out, int n) { out[threadIdx.x] = fibonacci(n); }
